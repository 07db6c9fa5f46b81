package plan

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"forage"
	"forage/internal/testdir"
)

// places are where parts are asked for: in one another, beside one another, with the same
// beginning.
var places = []string{
	"/workspace", "/workspace/a", "/workspace/a/b", "/workspace/a-b", "/workspace/b", "/workspace/.beads", "/deps", "/deps/lib", "/deps-2", "/srv/x",
}

// aComposition draws parts of a workspace on a host whose folders are below root.
func aComposition(t *rapid.T, root string) []forage.Workspace {
	folders := []string{"one", "two", "two/a", "two/a/b", "three", "four/.beads", "four"}
	var parts []forage.Workspace
	for i := range rapid.IntRange(1, 6).Draw(t, "parts") {
		w := forage.Workspace{
			Name: fmt.Sprintf("p%d", i), Target: rapid.SampledFrom(places).Draw(t, "target"),
			ReadOnly: rapid.Bool().Draw(t, "readOnly"),
			Mode:     rapid.SampledFrom([]forage.WorkspaceMode{forage.WorkspaceDirect, forage.WorkspaceWorktree}).Draw(t, "mode"),
			Path:     filepath.Join(root, rapid.SampledFrom(folders).Draw(t, "folder")),
		}
		if w.Mode == forage.WorkspaceWorktree {
			w.Path = filepath.Join(root, "state", w.Name)
			w.Repository = &forage.Repository{Mounts: []forage.Mount{
				{Source: w.Path + ".git", Target: w.Target + "/.git", Writable: !w.ReadOnly},
				{Source: filepath.Join(root, "store/objects"), Target: forage.RepositoriesPath + "/" + w.Name + "/objects"},
			}}
		}
		parts = append(parts, w)
	}
	return parts
}

// TestComposedMounts: what is composed depends on no order, has one thing at a place, nothing
// before what holds it, nothing where there is no place for it, nothing writable that was to be
// read only, and nothing of the host that no part is made of.
func TestComposedMounts(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"one", "two/a/b", "three", "four/.beads", "store/objects", "state"} {
		testdir.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	accepted := 0
	rapid.Check(t, func(t *rapid.T) {
		parts := aComposition(t, root)
		mounts, err := composedMounts(parts)
		shuffled := rapid.Permutation(parts).Draw(t, "order")
		again, againErr := composedMounts(shuffled)
		if (err == nil) != (againErr == nil) {
			t.Fatalf("in one order %v, in another %v", err, againErr)
		}
		if err != nil {
			return
		}
		accepted++
		if diff := cmp.Diff(mounts, again); diff != "" {
			t.Fatalf("in another order (-one +other):\n%s", diff)
		}
		checkComposed(t, parts, mounts)
	})
	if accepted == 0 {
		t.Error("nothing was accepted: nothing was looked at")
	}
}

func checkComposed(t *rapid.T, parts []forage.Workspace, mounts []forage.Mount) {
	seen := map[string]forage.Mount{}
	for _, mount := range mounts {
		if _, taken := seen[mount.Target]; taken {
			t.Fatalf("two mounts at %s", mount.Target)
		}
		for target := range seen {
			if Below(target, mount.Target) {
				t.Fatalf("%s is mounted before %s, which holds it", target, mount.Target)
			}
		}
		seen[mount.Target] = mount
	}
	for _, w := range parts {
		mount, ok := seen[w.Target]
		if !ok || mount.Source != w.Path || mount.Writable == w.ReadOnly {
			t.Fatalf("the part %+v is mounted as %+v", w, mount)
		}
		for _, other := range parts { // no way around read-only
			if other.Name != w.Name && w.ReadOnly && !other.ReadOnly && (other.Path == w.Path || Below(w.Path, other.Path) || Below(other.Path, w.Path)) {
				t.Fatalf("%s, which is read-only at %s, can be changed at %s", w.Path, w.Target, other.Target)
			}
		}
		if outer, ok := Holds(parts, w.Target); ok && outer.Mode == forage.WorkspaceDirect {
			if info, err := os.Lstat(outer.Path + strings.TrimPrefix(w.Target, outer.Target)); err != nil || !info.IsDir() {
				t.Fatalf("there is no place for %s in %s", w.Target, outer.Path)
			}
		}
	}
	for _, mount := range mounts {
		ours := slices.ContainsFunc(parts, func(w forage.Workspace) bool {
			return mount.Source == w.Path || slices.Contains(Metadata(w), mount)
		})
		if !ours {
			t.Fatalf("%+v is of no part", mount)
		}
	}
}

func TestComposedMountsAreRefused(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{"app/sub", "lib", "outside"} {
		testdir.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o755))
	}
	for link, to := range map[string]string{"app/link": "../outside", "app/in": "sub"} {
		testdir.Must(t, os.Symlink(to, filepath.Join(root, link)))
	}
	testdir.Must(t, os.WriteFile(filepath.Join(root, "app/file"), nil, 0o644))
	part := func(name, folder, target string, mode forage.WorkspaceMode) forage.Workspace {
		return forage.Workspace{Name: name, Path: filepath.Join(root, folder), Target: target, Mode: mode}
	}
	branch := func(w forage.Workspace, branch string) forage.Workspace {
		w.Branch, w.Repository = branch, &forage.Repository{Store: "/store"}
		return w
	}
	app := part("main", "app", "/workspace", forage.WorkspaceDirect)
	tree := part("main", "app", "/workspace", forage.WorkspaceWorktree)
	for name, test := range map[string]struct {
		parts []forage.Workspace
		want  string
	}{
		"a place that is there":         {[]forage.Workspace{app, part("b", "lib", "/workspace/sub", forage.WorkspaceDirect)}, ""},
		"a place that is not there":     {[]forage.Workspace{app, part("b", "lib", "/workspace/nosuch", forage.WorkspaceDirect)}, "has no folder"},
		"one that will be made":         {[]forage.Workspace{tree, part("b", "lib", "/workspace/nosuch", forage.WorkspaceDirect)}, ""},
		"a link that leaves":            {[]forage.Workspace{app, part("b", "lib", "/workspace/link", forage.WorkspaceDirect)}, "is a link"},
		"a link that stays":             {[]forage.Workspace{app, part("b", "lib", "/workspace/in", forage.WorkspaceDirect)}, "is a link"},
		"below a link":                  {[]forage.Workspace{app, part("b", "lib", "/workspace/link/x", forage.WorkspaceDirect)}, "is a link"},
		"a file":                        {[]forage.Workspace{app, part("b", "lib", "/workspace/file", forage.WorkspaceDirect)}, "is not a folder"},
		"the same place":                {[]forage.Workspace{app, part("b", "lib", "/workspace", forage.WorkspaceDirect)}, "parts b and main are both at /workspace"},
		"the same files":                {[]forage.Workspace{app, part("b", "app/sub", "/b", forage.WorkspaceDirect)}, "show the same files"},
		"the same branch":               {[]forage.Workspace{branch(app, "forage-x"), branch(part("b", "lib", "/b", forage.WorkspaceWorktree), "forage-x")}, "would both bring their commits to forage-x"},
		"branches of their own":         {[]forage.Workspace{branch(app, "forage-x"), branch(part("b", "lib", "/b", forage.WorkspaceWorktree), "forage-x.b")}, ""},
		"a place with the same start":   {[]forage.Workspace{app, part("b", "lib", "/workspace-2", forage.WorkspaceDirect)}, ""},
		"the metadata of another part":  {[]forage.Workspace{withMetadata(app), part("b", "lib", "/workspace/.git", forage.WorkspaceDirect)}, "are both at /workspace/.git"},
		"its own metadata at one place": {[]forage.Workspace{withMetadata(app)}, ""},
	} {
		_, err := composedMounts(test.parts)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

func withMetadata(w forage.Workspace) forage.Workspace {
	w.Repository = &forage.Repository{Mounts: []forage.Mount{{Source: "/private", Target: w.Target + "/.git", Writable: true}}}
	return w
}
