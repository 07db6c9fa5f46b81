package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
)

func protecting(spec forage.Spec, paths ...string) forage.Spec {
	for _, p := range paths {
		spec.Protect = append(spec.Protect, "/workspace/"+p)
	}
	return spec
}

// attempts are ways to get something else to path, each of which says what it did.
func attempts(path string) string {
	return strings.ReplaceAll(`
		(echo evil >PATH) 2>/dev/null && echo wrote PATH
		(echo evil >>PATH/x) 2>/dev/null && echo wrote into PATH
		(echo evil >evil; mv -fT evil PATH) 2>/dev/null && echo replaced PATH
		ln -sfT evil PATH 2>/dev/null && echo linked PATH
		mv PATH away 2>/dev/null && echo moved PATH
		rm -rf PATH 2>/dev/null && echo removed PATH
		chmod 777 PATH 2>/dev/null && echo chmod PATH
		umount -l PATH 2>/dev/null && echo unmounted PATH
		rm -f evil; true
	`, "PATH", path)
}

func TestProtect(t *testing.T) {
	names := []string{".envrc", ".vscode", ".claude", ".idea", "tools/hooks", "absent", "gone/absent"}
	dir := makeTree(t, ".envrc", ".vscode/tasks.json", ".claude/settings.json", ".idea -> .vscode", "tools/hooks/pre-commit", "tools/x", "y")
	script := "cd /workspace\n"
	for _, name := range []string{".envrc", ".vscode", ".claude", ".claude/settings.json", ".idea", "tools/hooks", "tools/hooks/pre-commit"} {
		script += attempts(name)
	}
	script += `
		mv tools away 2>/dev/null && echo moved a folder on the way
		python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b'tools', -100, b'other', 2))" 2>/dev/null && echo exchanged
		cat .idea/tasks.json; echo; echo y2 >y && echo z >tools/x && echo new >tools/new && cat tools/x && mkdir absent && echo ordinary work goes on`
	wantOut(t, inside(t, protecting(baseSpec(t, dir), names...), script), ".vscode/tasks.json\nz\nordinary work goes on")
	for _, file := range []string{".envrc", ".vscode/tasks.json", ".claude/settings.json", "tools/hooks/pre-commit"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != file {
			t.Errorf("%s is %q now, %v", file, text, err)
		}
	}
	if target, err := os.Readlink(filepath.Join(dir, ".idea")); target != ".vscode" {
		t.Errorf(".idea leads to %q, %v", target, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "gone")); err == nil {
		t.Error("something was made on the host")
	}
}

// Private metadata stands over the host's, at the root and in submodules, whatever folder is
// renamed.
func TestMetadataStaysInItsPlace(t *testing.T) {
	dir := makeTree(t, ".git/config", "libs/deep/sub/.git", "libs/deep/sub/x", "other/")
	private := makeTree(t, "git/config", "git/hooks/", "pointer")
	objects := makeTree(t, "pack/p")
	spec := with(baseSpec(t, dir),
		forage.Mount{Source: filepath.Join(private, "git"), Target: "/workspace/.git", Writable: true},
		forage.Mount{Source: filepath.Join(private, "pointer"), Target: "/workspace/libs/deep/sub/.git"},
		forage.Mount{Source: filepath.Join(private, "git"), Target: "/run/repositories/main/git", Writable: true},
		forage.Mount{Source: objects, Target: "/run/repositories/main/objects"})
	wantOut(t, inside(t, spec, `cd /workspace
		cat .git/config libs/deep/sub/.git /run/repositories/main/objects/pack/p; echo
		echo own >.git/hooks/pre-commit && echo own >/run/repositories/main/git/other
		for d in libs libs/deep libs/deep/sub .git; do
			mv $d away 2>/dev/null && echo moved $d
			python3 -c "import ctypes,sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b'$d', -100, b'other', 2))" 2>/dev/null && echo exchanged $d
		done
		(echo evil >libs/deep/sub/.git) 2>/dev/null && echo wrote
		mv -f libs/deep/sub/x libs/deep/sub/.git 2>/dev/null && echo replaced
		(echo evil >/run/repositories/main/objects/pack/p) 2>/dev/null && echo wrote objects
		echo z >libs/deep/sub/x; true`), "git/configpointerpack/p")
	for file, want := range map[string]string{".git/config": ".git/config", "libs/deep/sub/.git": "libs/deep/sub/.git", "libs/deep/sub/x": "z\n"} {
		if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != want {
			t.Errorf("%s is %q now, %v", file, text, err)
		}
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, ".git")); len(entries) != 1 {
		t.Errorf("the host's .git has %v", entries)
	}
}

// A repository that the user shows with --mount keeps its own metadata from the agent.
func TestRepositoryInAMount(t *testing.T) {
	repo := makeTree(t, ".git/config", ".jj/repo/config.toml", "x")
	spec := with(baseSpec(t, makeTree(t)), forage.Mount{Source: repo, Target: "/deps", Writable: true})
	wantOut(t, inside(t, spec, "cd /deps; echo y >x; cat x"+attempts(".git")+attempts(".git/config")+attempts(".jj")+attempts(".jj/repo")), "y")
}

// What is held in which share is known before anything is mounted.
func TestProtectedPlaces(t *testing.T) {
	b := &boot{Protect: []string{"/workspace/.git", "/workspace/a/b/.envrc", "/workspace/data/x", "/elsewhere/x"}}
	for _, target := range []string{"/", "/workspace", "/workspace/.git", "/workspace/data", "/workspace/c/d/.git"} {
		b.Mounts = append(b.Mounts, tree{Mount: forage.Mount{Target: target}})
	}
	folders, readOnly := b.holding("/workspace")
	if diff := cmp.Diff([]string{"/workspace/a", "/workspace/a/b", "/workspace/c", "/workspace/c/d"}, folders); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"/workspace/a/b/.envrc"}, readOnly); diff != "" {
		t.Error(diff)
	}
}
