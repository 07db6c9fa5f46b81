package autorun_test

import (
	"testing"

	"forage/internal/workspace/autorun"
)

func TestClassify(t *testing.T) {
	const file, program, link, gitlink = 0o100644, 0o100755, 0o120000, 0o160000
	for _, test := range []struct {
		path     string
		old, new uint32
		target   string
		want     autorun.Kind
	}{
		{"main.go", 0, file, "", ""},
		{"main.go", file, file, "", ""},
		{"run", 0, program, "", autorun.KindExecutable},
		{"run", file, program, "", autorun.KindExecutable},
		{"run", program, program, "", ""},
		{"run", program, 0, "", ""},
		{".envrc", file, 0, "", ""},
		{".envrc", file, file, "", autorun.KindShell},
		{"a/.vscode/x/y", 0, file, "", autorun.KindEditor},
		{".vscode", 0, link, "x", autorun.KindEditor},
		{"a/.git/config", 0, file, "", autorun.KindRepository},
		{"a/.GIT", 0, file, "", autorun.KindRepository},
		{"lib", 0, gitlink, "", autorun.KindSubmodule},
		{".gitmodules", 0, file, "", autorun.KindSubmodule},
		{"a/in", 0, link, "../x", ""},
		{"a/out", 0, link, "../../x", autorun.KindLink},
		{"abs", 0, link, "/workspace/x", autorun.KindLink},
		{".envrc.local", 0, file, "", autorun.KindShell},
		{"mise.production.toml", 0, file, "", autorun.KindShell},
		{".config/mise/conf.d/x.toml", 0, file, "", autorun.KindShell},
		{"nix/shell.nix", 0, file, "", autorun.KindShell},
		{"nix/inner.nix", 0, file, "", autorun.KindShell},
		{"flake.lock", file, file, "", autorun.KindShell},
		{"venv/bin/activate", 0, file, "", autorun.KindShell},
		{".rvmrc", 0, file, "", autorun.KindShell},
		{"rust-analyzer.toml", 0, file, "", autorun.KindEditor},
		{"a/.ropeproject/config.py", 0, file, "", autorun.KindEditor},
		{".lazygit.yml", 0, file, "", autorun.KindEditor},
		{".repo/repo/main.py", 0, file, "", autorun.KindRepository},
		{".github/hooks/a.json", 0, file, "", autorun.KindAgent},
		{".lfsconfig", 0, file, "", autorun.KindHook},
		{"a/.pijul/config", 0, file, "", autorun.KindRepository},
		{".PIJUL", 0, file, "", autorun.KindRepository},
		{"default.nix", 0, file, "", autorun.KindShell},
		{"devbox.json", 0, file, "", autorun.KindShell},
		{"mise.toml", 0, file, "", autorun.KindShell},
		{".mise.local.toml", 0, file, "", autorun.KindShell},
		{".bsp/sbt.json", 0, file, "", autorun.KindEditor},
		{"hie.yaml", 0, file, "", autorun.KindEditor},
		{"AGENTS.md", file, file, "", autorun.KindInstruct},
		{".github/copilot/settings.json", 0, file, "", autorun.KindAgent},
		{"prek.toml", 0, file, "", autorun.KindHook},
		{".commitlintrc.yaml", 0, file, "", autorun.KindHook},
		{".hgsub", 0, file, "", autorun.KindSubmodule},
		{"go.work", 0, file, "", autorun.KindBuild},
		{"compose.override.yaml", 0, file, "", autorun.KindBuild},
		{"Dockerfile.dev", 0, file, "", autorun.KindBuild},
		{"tsconfig.app.json", 0, file, "", autorun.KindBuild},
		{"settings.gradle.kts", 0, file, "", autorun.KindBuild},
		{"tsconfig.json", file, file, "", autorun.KindBuild},
		{"karma.conf.js", 0, file, "", autorun.KindBuild},
		{".prettierrc.json", 0, file, "", autorun.KindBuild},
		{"main.tf", 0, file, "", autorun.KindBuild},
		{".github/workflows/a.yml", 0, file, "", autorun.KindCI},
		{"sub/Makefile", 0, program, "", autorun.KindBuild},
		{"vite.config.ts", 0, file, "", autorun.KindBuild},
		{".lintstagedrc.js", 0, file, "", autorun.KindHook},
		{".bashrc", 0, file, "", autorun.KindShell},
		{"home/.zshrc", 0, file, "", autorun.KindShell},
		{".profile", 0, file, "", autorun.KindShell},
		{".direnvrc", 0, file, "", autorun.KindShell},
		{".config/direnv/direnvrc", 0, file, "", autorun.KindShell},
		{".tmux.conf", 0, file, "", autorun.KindShell},
		{".screenrc", 0, file, "", autorun.KindShell},
		{".ssh/config", 0, file, "", autorun.KindShell},
		{"a/.svn/wc.db", 0, file, "", autorun.KindRepository},
		{".bzr/branch/branch.conf", 0, file, "", autorun.KindRepository},
		{".fslckout", 0, file, "", autorun.KindRepository},
		{".hgrc", 0, file, "", autorun.KindRepository},
		{".emacs.d/init.el", 0, file, "", autorun.KindEditor},
		{".vimrc", 0, file, "", autorun.KindEditor},
		{".exrc", 0, file, "", autorun.KindEditor},
		{".python-version", 0, file, "", autorun.KindBuild},
		{".nvmrc", 0, file, "", autorun.KindBuild},
		{".ruby-version", 0, file, "", autorun.KindBuild},
		{"manage.py", 0, file, "", autorun.KindBuild},
		{"bin/rails", 0, file, "", autorun.KindBuild},
		{".perldb", 0, file, "", autorun.KindBuild},
		{".ackrc", 0, file, "", autorun.KindBuild},
		{"dvc.yaml", 0, file, "", autorun.KindBuild},
		{"pip.conf", 0, file, "", autorun.KindBuild},
		{"debian/rules", 0, program, "", autorun.KindBuild},
		{".gdbinit", 0, file, "", autorun.KindBuild},
		{".lldbinit", 0, file, "", autorun.KindBuild},
		{"a/conftest.py", 0, file, "", autorun.KindBuild},
		{"sitecustomize.py", 0, file, "", autorun.KindBuild},
		{"x.pth", 0, file, "", autorun.KindBuild},
		{"Rakefile", 0, file, "", autorun.KindBuild},
		{"Gemfile", 0, file, "", autorun.KindBuild},
		{".npmrc", 0, file, "", autorun.KindBuild},
		{".yarnrc.yml", 0, file, "", autorun.KindBuild},
		{"build.rs", 0, file, "", autorun.KindBuild},
		{".cargo/config.toml", 0, file, "", autorun.KindBuild},
	} {
		f, ok := autorun.Classify(test.path, test.old, test.new, test.target)
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
		finding, ok := autorun.Classify(path, before, after, target)
		if ok && (finding.Kind == "" || finding.Why == "" || finding.Path != path) {
			t.Errorf("%q: %+v", path, finding)
		}
		// Whatever it is, below a .git of any spelling it is a repository's.
		if nested, ok := autorun.Classify("x/.GIT/"+path, before, 0o100644, ""); !ok || nested.Kind != autorun.KindRepository {
			t.Errorf("%q in a repository: %+v", path, nested)
		}
	})
}
