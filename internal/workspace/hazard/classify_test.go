package hazard_test

import (
	"testing"

	"forage/internal/workspace/hazard"
)

func TestClassify(t *testing.T) {
	const file, program, link, gitlink = 0o100644, 0o100755, 0o120000, 0o160000
	for _, test := range []struct {
		path     string
		old, new uint32
		target   string
		want     hazard.Kind
	}{
		{"main.go", 0, file, "", ""},
		{"main.go", file, file, "", ""},
		{"run", 0, program, "", hazard.KindExecutable},
		{"run", file, program, "", hazard.KindExecutable},
		{"run", program, program, "", ""},
		{"run", program, 0, "", ""},
		{".envrc", file, 0, "", ""},
		{".envrc", file, file, "", hazard.KindShell},
		{"a/.vscode/x/y", 0, file, "", hazard.KindEditor},
		{".vscode", 0, link, "x", hazard.KindEditor},
		{"a/.git/config", 0, file, "", hazard.KindRepository},
		{"a/.GIT", 0, file, "", hazard.KindRepository},
		{"lib", 0, gitlink, "", hazard.KindSubmodule},
		{".gitmodules", 0, file, "", hazard.KindSubmodule},
		{"a/in", 0, link, "../x", ""},
		{"a/out", 0, link, "../../x", hazard.KindLink},
		{"abs", 0, link, "/workspace/x", hazard.KindLink},
		{".envrc.local", 0, file, "", hazard.KindShell},
		{"mise.production.toml", 0, file, "", hazard.KindShell},
		{".config/mise/conf.d/x.toml", 0, file, "", hazard.KindShell},
		{"nix/shell.nix", 0, file, "", hazard.KindShell},
		{"nix/inner.nix", 0, file, "", hazard.KindShell},
		{"flake.lock", file, file, "", hazard.KindShell},
		{"venv/bin/activate", 0, file, "", hazard.KindShell},
		{".rvmrc", 0, file, "", hazard.KindShell},
		{"rust-analyzer.toml", 0, file, "", hazard.KindEditor},
		{"a/.ropeproject/config.py", 0, file, "", hazard.KindEditor},
		{".lazygit.yml", 0, file, "", hazard.KindEditor},
		{".repo/repo/main.py", 0, file, "", hazard.KindRepository},
		{".github/hooks/a.json", 0, file, "", hazard.KindAgent},
		{".lfsconfig", 0, file, "", hazard.KindHook},
		{"a/.pijul/config", 0, file, "", hazard.KindRepository},
		{".PIJUL", 0, file, "", hazard.KindRepository},
		{"default.nix", 0, file, "", hazard.KindShell},
		{"devbox.json", 0, file, "", hazard.KindShell},
		{"mise.toml", 0, file, "", hazard.KindShell},
		{".mise.local.toml", 0, file, "", hazard.KindShell},
		{".bsp/sbt.json", 0, file, "", hazard.KindEditor},
		{"hie.yaml", 0, file, "", hazard.KindEditor},
		{"AGENTS.md", file, file, "", hazard.KindInstruct},
		{".github/copilot/settings.json", 0, file, "", hazard.KindAgent},
		{"prek.toml", 0, file, "", hazard.KindHook},
		{".commitlintrc.yaml", 0, file, "", hazard.KindHook},
		{".hgsub", 0, file, "", hazard.KindSubmodule},
		{"go.work", 0, file, "", hazard.KindBuild},
		{"compose.override.yaml", 0, file, "", hazard.KindBuild},
		{"Dockerfile.dev", 0, file, "", hazard.KindBuild},
		{"tsconfig.app.json", 0, file, "", hazard.KindBuild},
		{"settings.gradle.kts", 0, file, "", hazard.KindBuild},
		{"tsconfig.json", file, file, "", hazard.KindBuild},
		{"karma.conf.js", 0, file, "", hazard.KindBuild},
		{".prettierrc.json", 0, file, "", hazard.KindBuild},
		{"main.tf", 0, file, "", hazard.KindBuild},
		{".github/workflows/a.yml", 0, file, "", hazard.KindCI},
		{"sub/Makefile", 0, program, "", hazard.KindBuild},
		{"vite.config.ts", 0, file, "", hazard.KindBuild},
		{".lintstagedrc.js", 0, file, "", hazard.KindHook},
		{".bashrc", 0, file, "", hazard.KindShell},
		{"home/.zshrc", 0, file, "", hazard.KindShell},
		{".profile", 0, file, "", hazard.KindShell},
		{".direnvrc", 0, file, "", hazard.KindShell},
		{".config/direnv/direnvrc", 0, file, "", hazard.KindShell},
		{".tmux.conf", 0, file, "", hazard.KindShell},
		{".screenrc", 0, file, "", hazard.KindShell},
		{".ssh/config", 0, file, "", hazard.KindShell},
		{"a/.svn/wc.db", 0, file, "", hazard.KindRepository},
		{".bzr/branch/branch.conf", 0, file, "", hazard.KindRepository},
		{".fslckout", 0, file, "", hazard.KindRepository},
		{".hgrc", 0, file, "", hazard.KindRepository},
		{".emacs.d/init.el", 0, file, "", hazard.KindEditor},
		{".vimrc", 0, file, "", hazard.KindEditor},
		{".exrc", 0, file, "", hazard.KindEditor},
		{".python-version", 0, file, "", hazard.KindBuild},
		{".nvmrc", 0, file, "", hazard.KindBuild},
		{".ruby-version", 0, file, "", hazard.KindBuild},
		{"manage.py", 0, file, "", hazard.KindBuild},
		{"bin/rails", 0, file, "", hazard.KindBuild},
		{".perldb", 0, file, "", hazard.KindBuild},
		{".ackrc", 0, file, "", hazard.KindBuild},
		{"dvc.yaml", 0, file, "", hazard.KindBuild},
		{"pip.conf", 0, file, "", hazard.KindBuild},
		{"debian/rules", 0, program, "", hazard.KindBuild},
		{".gdbinit", 0, file, "", hazard.KindBuild},
		{".lldbinit", 0, file, "", hazard.KindBuild},
		{"a/conftest.py", 0, file, "", hazard.KindBuild},
		{"sitecustomize.py", 0, file, "", hazard.KindBuild},
		{"x.pth", 0, file, "", hazard.KindBuild},
		{"Rakefile", 0, file, "", hazard.KindBuild},
		{"Gemfile", 0, file, "", hazard.KindBuild},
		{".npmrc", 0, file, "", hazard.KindBuild},
		{".yarnrc.yml", 0, file, "", hazard.KindBuild},
		{"build.rs", 0, file, "", hazard.KindBuild},
		{".cargo/config.toml", 0, file, "", hazard.KindBuild},
	} {
		f, ok := hazard.Classify(test.path, test.old, test.new, test.target)
		if f.Kind != test.want || ok != (test.want != "") || ok && (f.Path != test.path || f.Why == "") {
			t.Errorf("%s %o -> %o %q: %+v, %v; want %q", test.path, test.old, test.new, test.target, f, ok, test.want)
		}
	}
}

func FuzzClassify(f *testing.F) {
	for _, path := range []string{"a/.git/config", ".g\u200cit", "git~1", "a\\.git", ".git::$INDEX_ALLOCATION", "/", "//x", "", "a/../b", "\xff", ":", ". ."} {
		f.Add(path, uint32(0), uint32(0o120000), "../"+path)
	}
	f.Fuzz(func(t *testing.T, path string, before, after uint32, target string) {
		finding, ok := hazard.Classify(path, before, after, target)
		if ok && (finding.Kind == "" || finding.Why == "" || finding.Path != path) {
			t.Errorf("%q: %+v", path, finding)
		}
		// Whatever it is, below a .git of any spelling it is a repository's.
		if nested, ok := hazard.Classify("x/.GIT/"+path, before, 0o100644, ""); !ok || nested.Kind != hazard.KindRepository {
			t.Errorf("%q in a repository: %+v", path, nested)
		}
	})
}
