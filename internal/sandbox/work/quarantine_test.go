package work

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testdir"
	"forage/internal/workspace/autorun"
)

func files(t *testing.T, root string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, link := strings.Cut(name, " -> ")
		at := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(at), 0o755)
		if err == nil && link {
			err = os.Symlink(target, at)
		} else if err == nil {
			err = os.WriteFile(at, []byte(name), 0o640)
		}
		testdir.Must(t, err)
	}
}

// Whatever the agent puts on the way, nothing outside the workspace is moved, and nothing is put
// elsewhere.
func TestMoveAsideStaysInside(t *testing.T) {
	outside := t.TempDir()
	files(t, outside, "precious", "dir/precious")
	for name, attack := range map[string]struct {
		files []string
		rel   string
	}{
		"a link on the way":       {[]string{"a -> " + outside}, "a/precious"},
		"a link up":               {[]string{"a -> .."}, "a/x"},
		"dots":                    {nil, "../precious"},
		"the root":                {nil, "."},
		"an absolute path":        {nil, filepath.Join(outside, "precious")},
		"a folder that is a file": {[]string{"a"}, "a/x"},
	} {
		root := t.TempDir()
		files(t, root, attack.files...)
		if to, err := moveAside(t.Context(), root, attack.rel, filepath.Join(t.TempDir(), "q")); err == nil {
			t.Errorf("%s: moved to %s", name, to)
		}
	}
	// A link that was moved before is in the way of what comes after it.
	root, aside := t.TempDir(), filepath.Join(t.TempDir(), "q")
	files(t, root, ".vscode -> "+outside)
	if _, err := moveAside(t.Context(), root, ".vscode", aside); err != nil {
		t.Fatal(err)
	}
	files(t, root, ".vscode/planted")
	if to, err := moveAside(t.Context(), root, ".vscode/planted", aside); err == nil {
		t.Errorf("moved to %s", to)
	}
	// Nor does the way to the workspace lead anywhere else than when the sandbox was made.
	way := filepath.Join(t.TempDir(), "way")
	testdir.Must(t, os.Symlink(outside, way))
	for top, rel := range map[string]string{way: "precious", filepath.Join(way, "dir"): "precious"} {
		if to, err := moveAside(t.Context(), top, rel, filepath.Join(t.TempDir(), "q")); err == nil {
			t.Errorf("through a link on the way: moved to %s", to)
		}
	}
	left, err := os.ReadDir(outside)
	if err != nil || len(left) != 2 {
		t.Errorf("outside are %v, %v", left, err)
	}
}

// To another file system what is moved is copied whole, and only then removed.
func TestMoveFar(t *testing.T) {
	root, to := t.TempDir(), filepath.Join(t.TempDir(), "there")
	files(t, root, ".git/config", ".git/hooks/x", ".git/link -> /etc/passwd")
	testdir.Must(t, unix.Mkfifo(filepath.Join(root, ".git/pipe"), 0o644))
	dir, err := os.Open(root)
	testdir.Must(t, err)
	defer dir.Close()
	testdir.Must(t, moveFar(t.Context(), dir, ".git", to))
	if left, _ := os.ReadDir(root); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	text, err := os.ReadFile(filepath.Join(to, "hooks/x"))
	target, _ := os.Readlink(filepath.Join(to, "link"))
	if err != nil || string(text) != ".git/hooks/x" || target != "/etc/passwd" {
		t.Errorf("%q, %q, %v", text, target, err)
	}
}

func TestChoose(t *testing.T) {
	finding := func(path string, kind autorun.Kind) Finding {
		return Finding{Finding: autorun.Finding{Path: path, Kind: kind}, Immediate: kind.Immediate()}
	}
	found := []Finding{
		finding(".git", autorun.KindRepository), finding("a/.git", autorun.KindRepository), finding(".envrc", autorun.KindShell),
		finding("shut", autorun.KindUnseen), finding("Makefile", autorun.KindBuild), finding("a/x.mk", autorun.KindBuild),
	}
	before := Baselines{"main": {".git": "x", ".envrc": "y"}}
	plan := forage.Plan{Workspace: forage.Workspace{Name: "main"}}
	for _, test := range []struct {
		options QuarantineOptions
		want    []string
	}{
		{QuarantineOptions{}, []string{"a/.git", ".envrc"}},
		{QuarantineOptions{All: true}, []string{"a/.git", ".envrc", "Makefile", "a/x.mk"}},
		{QuarantineOptions{Paths: []string{"a", "./.git", "a/"}}, []string{"a/.git", "a/x.mk", ".git"}},
		{QuarantineOptions{Paths: []string{"none"}}, nil},
		{QuarantineOptions{Paths: []string{"../a"}}, nil},
	} {
		chosen, err := choose(append([]Finding(nil), found...), before, plan, test.options)
		if test.want == nil {
			if !errors.Is(err, forage.ErrUsage) {
				t.Errorf("%+v: %v", test.options, err)
			}
			continue
		}
		var got []string
		for _, h := range chosen {
			got = append(got, h.Path)
		}
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%+v: %v %s", test.options, err, diff)
		}
	}
}
