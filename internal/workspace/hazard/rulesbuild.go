package hazard

import "strings"

// builds are files that a build, a test or a package manager executes, by their names in lower case.
var builds = map[string]string{
	"makefile": whyMake, "gnumakefile": whyMake, "bsdmakefile": whyMake,
	"justfile": "just executes it", ".justfile": "just executes it",
	"taskfile.yml": "task executes it", "taskfile.yaml": "task executes it", "taskfile.dist.yml": "task executes it", "taskfile.dist.yaml": "task executes it", "maskfile.md": "mask executes it",
	"jakefile": "jake executes it", "cakefile": "cake executes it", "build.cake": "Cake executes it", "makefile.toml": "cargo make executes it", "bacon.toml": "bacon executes its jobs",
	"package.json":  "npm, yarn and pnpm execute its scripts, some on install",
	"package.json5": "pnpm executes its scripts, some on install",
	"package.yaml":  "pnpm executes its scripts, some on install",
	".npmrc":        "npm takes from it the shell, the programs and the registry that it uses", ".yarnrc": "yarn starts the program that it names (yarn-path)",
	".yarnrc.yml": "yarn starts the program that it names (yarnPath)", ".pnp.cjs": "node loads it where yarn is used", ".pnp.loader.mjs": "node loads it where yarn is used",
	".pnpmfile.cjs": "pnpm executes it on install", ".pnpmfile.mjs": "pnpm executes it on install", ".bowerrc": "bower executes its scripts", "pnpmfile.js": "pnpm executes it on install", "pnpm-workspace.yaml": "pnpm takes from it whose install scripts to execute",
	"bunfig.toml": "bun loads what it names before every program", "deno.json": "deno executes its tasks", "deno.jsonc": "deno executes its tasks",
	"lerna.json": "lerna executes the commands in it", "nx.json": "nx executes its tasks", "turbo.json": "turbo executes its tasks",
	".babelrc": "Babel loads the plugins that it names", ".eslintrc": whyConfigJS, ".eslintrc.json": whyConfigJS, ".eslintrc.yml": whyConfigJS, ".eslintrc.yaml": whyConfigJS,
	".prettierrc": whyConfigJS, ".mocharc.yml": whyConfigJS, ".mocharc.yaml": whyConfigJS, ".mocharc.json": whyConfigJS, ".mocharc.jsonc": whyConfigJS,
	".nycrc": whyConfigJS, ".nycrc.json": whyConfigJS, ".oxlintrc.json": whyConfigJS, "tslint.json": whyConfigJS, ".sequelizerc": "sequelize executes it", "nodemon.json": "nodemon executes its commands",
	".releaserc": "semantic-release loads what it names", ".versionrc": "standard-version executes its scripts", "angular.json": "Angular loads the builders that it names", "project.json": "nx executes its tasks",
	"wrangler.toml": whyWrangler, "wrangler.json": whyWrangler, "wrangler.jsonc": whyWrangler, "firebase.json": "firebase executes its hooks", "dprint.json": "dprint loads the plugins that it names",
	"go.mod": "go takes from it which toolchain to download and start, and editors do on opening the folder", "go.work": "go takes from it which modules to build and which toolchain to start, and editors do on opening the folder",
	"build.rs": "cargo executes it, and rust-analyzer does on opening the folder", "cargo.toml": "cargo takes from it what to build and execute (build, proc-macro)",
	"rust-toolchain": whyRustup, "rust-toolchain.toml": whyRustup, ".cargo/config": whyCargo, ".cargo/config.toml": whyCargo, ".config/nextest.toml": "nextest executes its scripts",
	"setup.py": "pip and python builds execute it", "setup.cfg": "pip and python tools take from it what to execute", "pyproject.toml": "pip and python tools take from it what to execute",
	"conftest.py": "pytest executes it, and editors that look for tests do", "pytest.ini": "pytest loads the plugins that it names", "tox.ini": "tox executes its commands", ".pytest.ini": "pytest loads the plugins that it names", "pytest.toml": "pytest loads the plugins that it names", ".pytest.toml": "pytest loads the plugins that it names",
	"hatch.toml": "hatch executes its scripts", "uv.toml": "uv takes from it where packages come from", ".coveragerc": "coverage loads the plugins that it names", "gunicorn.conf.py": "gunicorn executes it in this folder",
	"snakefile": "snakemake executes it", "conf.py": "Sphinx executes it, and editors do on opening a file", "mkdocs.yml": "MkDocs executes its hooks and plugins", "_quarto.yml": "Quarto executes its scripts", "book.toml": "mdBook executes the commands in it",
	".latexmkrc": whyLatexmk, "latexmkrc": whyLatexmk, "doxyfile": "Doxygen executes its filters", ".ansible-lint": "ansible-lint loads rules from the folders that it names", ".sqlfluff": "SQLFluff loads what it names, and editors do on opening a file",
	"noxfile.py": "nox executes it", "tasks.py": "invoke executes it", "fabfile.py": "fabric executes it", "dodo.py": "doit executes it",
	"sitecustomize.py": "python executes it at every start", "usercustomize.py": "python executes it at every start", "pyvenv.cfg": "python starts from the folder that it names",
	".pylintrc": "pylint executes its init-hook", "pylintrc": "pylint executes its init-hook", ".pylintrc.toml": "pylint executes its init-hook", "pylintrc.toml": "pylint executes its init-hook", "mypy.ini": "mypy loads the plugins that it names", ".mypy.ini": "mypy loads the plugins that it names", ".pdbrc": "python's debugger executes it",
	"gradlew": "it is executed in the place of gradle", "gradlew.bat": "it is executed in the place of gradle",
	"gradle.properties": "Gradle starts Java with what it says",
	"mvnw":              "it is executed in the place of Maven", "mvnw.cmd": "it is executed in the place of Maven", "pom.xml": "Maven executes its plugins", "build.xml": "Ant executes it",
	"build.sc": "Mill executes it", "build.mill": "Mill executes it", ".jvmopts": "sbt starts Java with what it says", ".sbtopts": "sbt starts with what it says", ".sbtrc": "sbt executes it",
	".bazelrc": "Bazel takes its options from it", ".bazeliskrc": "bazelisk takes from it where to download Bazel", ".buckconfig": "Buck takes from it what to execute", "buck": "Buck executes it", "pants.toml": "Pants takes from it what to execute", ".plzconfig": "Please takes from it what to execute", "workspace": "Bazel executes it", "workspace.bazel": "Bazel executes it", "module.bazel": "Bazel executes it",
	"build": "Bazel executes it", "build.bazel": "Bazel executes it", "tools/bazel": "it is executed in the place of Bazel", ".bazelversion": "bazelisk downloads and executes what it names",
	"cmakelists.txt": "CMake executes it, and editors do on opening the folder", "cmakepresets.json": "CMake takes from it what to execute", "cmakeuserpresets.json": "CMake takes from it what to execute",
	"configure": "it is executed before a build", "configure.ac": "autoconf executes it", "autogen.sh": "it is executed before a build", "bootstrap": "it is executed before a build",
	"meson.build": "Meson executes it", "sconstruct": "SCons executes it", "sconscript": "SCons executes it", "wscript": "Waf executes it", "build.ninja": "Ninja executes it",
	"rakefile": "rake executes it", "gemfile": "Bundler executes it", "gems.rb": "Bundler executes it", ".bundle/config": "Bundler takes from it where programs come from", ".simplecov": "SimpleCov executes it", "fastfile": "fastlane executes it", ".byebugrc": "byebug executes it in this folder", ".standard.yml": "Standard, also in editors, loads what it requires", ".rspec": "rspec loads what it names", ".irbrc": "irb executes it in this folder", ".pryrc": "pry executes it in this folder",
	"composer.json": "Composer executes its scripts, some on install", ".user.ini": "PHP executes what it names before every page", ".htaccess": "web servers take from it what to execute", ".phpcs.xml": whyPHPCS, ".phpcs.xml.dist": whyPHPCS, "phpcs.xml": whyPHPCS, "phpcs.xml.dist": whyPHPCS, "phpunit.xml": "PHPUnit executes what it names", "phpunit.xml.dist": "PHPUnit executes what it names",
	"phpstan.neon": "PHPStan executes what it names", "phpstan.neon.dist": "PHPStan executes what it names", "psalm.xml": "Psalm loads the plugins that it names", "rector.php": "Rector executes it", ".php-cs-fixer.php": whyFixer, ".php-cs-fixer.dist.php": whyFixer,
	".formatter.exs": "mix format executes it, and editors do on saving", ".credo.exs": "credo executes it", ".erlang": "erl executes it in this folder", "cpanfile": "cpanm and carton execute it", ".luacheckrc": "luacheck executes it, and editors do on opening a file", ".busted": "busted executes it", "mix.exs": "mix executes it", ".iex.exs": "iex executes it in this folder", "rebar.config": "rebar3 executes its hooks",
	"project.clj": "Leiningen executes it", "profiles.clj": "Leiningen executes it", "shadow-cljs.edn": "shadow-cljs executes its hooks", "bb.edn": "babashka executes its tasks", "deps.edn": "clojure takes from it what to execute", "dune": "dune executes its rules", ".ocamlinit": "ocaml executes it in this folder",
	"nim.cfg": "nim takes from it what to execute and which compiler to start, and editors do on opening a file", "config.nims": "nim executes it on every compilation, and editors do on opening a file", "shard.yml": "shards executes its scripts on install", "deps/build.jl": "Julia executes it on install", "renv/activate.r": "R executes it in this folder, where .Rprofile calls it", "_targets.r": "targets executes it",
	"setup.hs": "cabal executes it", "cabal.project": "cabal takes from it what to build", "cabal.project.local": "cabal takes from it what to build", "stack.yaml": "stack takes from it what to execute", "package.swift": "swift executes it, and editors do on opening the folder", "build.zig": "zig executes it",
	".ghci": "GHCi executes it in this folder", ".rprofile": "R executes it in this folder", ".gdbinit": "gdb executes it in this folder", ".lldbinit": "lldb executes it in this folder", ".octaverc": "Octave executes it in this folder",
	"dockerfile": "docker build executes it", "containerfile": "podman build executes it",
	"vagrantfile": "Vagrant executes it", "tiltfile": "Tilt executes it", "skaffold.yaml": "Skaffold executes its hooks", "procfile": "foreman and others execute its commands", "procfile.dev": "foreman and others execute its commands", "process-compose.yml": "process-compose executes it", "process-compose.yaml": "process-compose executes it", "mprocs.yaml": "mprocs executes it",
	"treefmt.toml": "treefmt executes the commands in it", ".treefmt.toml": "treefmt executes the commands in it", "buf.gen.yaml": "buf executes the plugins that it names", ".tflint.hcl": "tflint loads the plugins that it names", "helmfile.yaml": "helmfile executes its hooks", "platformio.ini": "PlatformIO executes its scripts, and editors do on opening the folder", "earthfile": "Earthly executes it",
	".tmuxinator.yml": "tmuxinator executes it", ".tmuxp.yaml": "tmuxp executes it", ".tmuxp.json": "tmuxp executes it", ".golangci.yml": "golangci-lint loads the plugins that it names",
	"jsconfig.json": "editors load the plugins that it names on opening the folder",
	".rubocop.yml":  "RuboCop, also in editors, loads what it requires", ".flake8": "flake8 loads the plugins that it names", "pipfile": "pipenv executes its scripts",
	".proverc": "prove executes what it names", "makefile.pl": "perl builds execute it", "build.pl": "perl builds execute it", "makefile.am": "automake makes a Makefile of it",
	"guardfile": "guard executes it", "thorfile": "thor executes it", "capfile": "Capistrano executes it", "podfile": "CocoaPods executes it", "dangerfile": "danger executes it", "config.ru": "rack executes it",
	"magefile.go": "mage executes it", ".air.toml": "air executes its commands", ".renviron": "R starts with what it says", ".rdata": "R loads it in this folder", "startup.m": "MATLAB executes it in this folder",
	"jupyter_server_config.py": "jupyter executes it in this folder", "jupyter_notebook_config.py": "jupyter executes it in this folder", "conanfile.py": "Conan executes it",
	"premake5.lua": "premake executes it", "kconfig": "its shell functions are executed by a build", "kbuild": whyMake, ".arcconfig": "Arcanist loads the libraries that it names", ".arclint": "Arcanist executes its scripts", ".reviewboardrc": "rbt executes it",
	"project.pbxproj": "Xcode executes its build phases", "cdk.json": "the AWS CDK executes the command in it", "cdktf.json": "CDKTF executes the command in it", "pulumi.yaml": "Pulumi executes the program that it names", "terragrunt.hcl": "Terragrunt executes its hooks", "serverless.yml": "Serverless loads the plugins that it names", "serverless.yaml": "Serverless loads the plugins that it names",
	"global.json": "dotnet chooses by it which SDK is started", "nuget.config": "NuGet takes from it where packages come from", "directory.build.rsp": "MSBuild takes its options from it", "build.fsx": "dotnet fsi executes it",
	".goreleaser.yml": "GoReleaser executes its hooks", ".goreleaser.yaml": "GoReleaser executes its hooks", ".golangci.yaml": "golangci-lint loads the plugins that it names", ".golangci.toml": "golangci-lint loads the plugins that it names",
	"ansible.cfg": "Ansible loads plugins from the folders that it names", "dub.json": "dub executes its commands", "xmake.lua": "xmake executes it", "brewfile": "brew bundle executes it",
}

const (
	whyMake     = "make executes it"
	whyGradle   = "Gradle executes it, and editors do on opening the folder"
	whyCargo    = "cargo starts the programs that it names, and rust-analyzer does on opening the folder"
	whyLatexmk  = "latexmk executes it, and editors do on saving"
	whyFixer    = "PHP CS Fixer executes it, and editors do on saving"
	whyPHPCS    = "PHP_CodeSniffer executes what it names, and editors do on opening a file"
	whyWrangler = "wrangler executes its build command"
	whyRustup   = "rustup chooses by it which cargo and rustc are started, by a path too"
	whyCompose  = "docker compose shows containers the folders of the host that it names"
	whyConfigJS = "JavaScript tools load it, or what it names; editors do on opening the folder"
)

// buildSuffixes are the same, by the ends of names in lower case.
var buildSuffixes = []struct {
	suffix string
	rule
}{
	{".mk", rule{KindBuild, whyMake}}, {".just", rule{KindBuild, "just executes it"}},
	{".bzl", rule{KindBuild, "Bazel executes it"}}, {".cmake", rule{KindBuild, "CMake executes it"}},
	{".gradle", rule{KindBuild, whyGradle}}, {".gradle.kts", rule{KindBuild, whyGradle}}, {".sbt", rule{KindBuild, "sbt executes it"}},
	{".gemspec", rule{KindBuild, "Bundler executes it"}}, {".pth", rule{KindBuild, "python executes lines of it at every start"}},
	{".csproj", rule{KindBuild, "MSBuild executes its tasks"}}, {".fsproj", rule{KindBuild, "MSBuild executes its tasks"}}, {".vbproj", rule{KindBuild, "MSBuild executes its tasks"}},
	{".nimble", rule{KindBuild, "nimble executes it"}}, {".nims", rule{KindBuild, "nim executes it when it compiles what has its name, and editors do on opening that"}}, {".opam", rule{KindBuild, "opam executes its commands"}}, {".dockerfile", rule{KindBuild, "docker build executes it"}}, {".pkr.hcl", rule{KindBuild, "Packer executes its provisioners"}},
	{".tofu", rule{KindBuild, "OpenTofu executes its external programs, on plan too"}}, {".tf.json", rule{KindBuild, "Terraform executes its external programs, on plan too"}}, {".vcxproj", rule{KindBuild, "MSBuild executes its tasks"}}, {".props", rule{KindBuild, "MSBuild executes its tasks"}}, {".targets", rule{KindBuild, "MSBuild executes its tasks"}},
	{".nix", rule{KindShell, "nix evaluates it where flake.nix or shell.nix import it, and direnv on cd"}}, {".tf", rule{KindBuild, "Terraform executes its external programs, on plan too"}},
	{".code-workspace", rule{KindEditor, "VS Code and its relatives take tasks and programs from it on opening it"}},
	{".sublime-project", rule{KindEditor, "Sublime Text takes programs to run from it"}},
	{".desktop", rule{KindEditor, "file managers start the program that it names"}},
}

// scripted are the endings that make a program of a configuration file: eslint.config.mjs, .lintstagedrc.cjs.
var scripted = []string{".js", ".cjs", ".mjs", ".ts", ".cts", ".mts"}

// byEnding finds rules for kinds of names. name is in lower case.
func byEnding(name string) (rule, bool) {
	for _, shell := range [...]struct {
		prefix, suffix string
		rule
	}{
		{".envrc.", "", rule{KindShell, "direnv executes it on cd where .envrc names it, without asking again"}},
		{"mise.", ".toml", rule{KindShell, whyMise}}, {".mise.", ".toml", rule{KindShell, whyMise}},
		{".huskyrc.", "", rule{KindHook, "husky executes it on git's hooks"}}, {".commitlintrc.", "", rule{KindHook, "commitlint loads what it names on git commit"}},
		{"dockerfile.", "", rule{KindBuild, "docker build executes it"}}, {"tsconfig.", ".json", rule{KindBuild, "editors load the plugins that it names on opening the folder"}},
		{"docker-compose.", ".yml", rule{KindBuild, whyCompose}}, {"docker-compose.", ".yaml", rule{KindBuild, whyCompose}}, {"compose.", ".yml", rule{KindBuild, whyCompose}}, {"compose.", ".yaml", rule{KindBuild, whyCompose}},
		{".releaserc.", "", rule{KindBuild, "semantic-release loads what it names"}}, {".versionrc.", "", rule{KindBuild, "standard-version executes its scripts"}}, {".markdownlint-cli2.", "", rule{KindBuild, whyConfigJS}},
		{".prettierrc.", "", rule{KindBuild, whyConfigJS}}, {".stylelintrc", "", rule{KindBuild, whyConfigJS}}, {".babelrc.", "", rule{KindBuild, whyConfigJS}}, {".postcssrc", "", rule{KindBuild, whyConfigJS}},
	} {
		if strings.HasPrefix(name, shell.prefix) && strings.HasSuffix(name, shell.suffix) {
			return shell.rule, true
		}
	}
	for _, s := range buildSuffixes {
		if len(name) > len(s.suffix) && strings.HasSuffix(name, s.suffix) {
			return s.rule, true
		}
	}
	for _, ending := range scripted {
		stem, ok := strings.CutSuffix(name, ending)
		switch {
		case !ok:
		case strings.HasPrefix(stem, ".lintstagedrc"), strings.HasPrefix(stem, "lint-staged.config"):
			return rule{KindHook, whyLintStaged}, true
		case strings.HasSuffix(stem, ".config"), strings.HasSuffix(stem, ".conf"), strings.HasPrefix(stem, ".") && strings.HasSuffix(stem, "rc"), stem == "gulpfile", stem == "gruntfile":
			return rule{KindBuild, whyConfigJS}, true
		}
	}
	return rule{}, false
}
