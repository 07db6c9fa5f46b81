package review

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage"
)

func TestFold(t *testing.T) {
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"readme", "README", true},
		{"\u00e9t\u00e9", "E\u0301te\u0301", true},
		{"stra\u00dfe", "STRASSE", true},
		{"\u212a", "k", true}, // the sign of kelvin
		{"a\u200db", "AB", true},
		{"\ufb01le", "FILE", true},
		{"a", "b", false},
		{"e", "\u00e9", false},
		{"a b", "ab", false},
	} {
		if got := fold(test.a) == fold(test.b); got != test.same {
			t.Errorf("%q and %q: the same is %v", test.a, test.b, got)
		}
	}
}

func TestAlike(t *testing.T) {
	for _, test := range []struct {
		name       string
		old, added []string
		want       [][2]string
	}{
		{"nothing", []string{"a", "b"}, []string{"c", "A/b/c"}, [][2]string{{"a", "A"}}},
		{"all different", []string{"a/b", "b"}, []string{"a/c", "b2"}, nil},
		{"two new", nil, []string{"x/Read", "x/read"}, [][2]string{{"x/Read", "x/read"}}},
		{"new beside old", []string{"read"}, []string{"Read"}, [][2]string{{"read", "Read"}}},
		{"old beside old", []string{"read", "Read"}, []string{"other"}, nil},
		{"folders", []string{"docs/a", "src/x"}, []string{"Docs/b", "src/X"}, [][2]string{{"docs", "Docs"}, {"src/x", "src/X"}}},
		{"into old folders", []string{"docs/a", "Docs/a"}, []string{"Docs/b"}, nil},
		{"elsewhere", []string{"x/a"}, []string{"y/A"}, nil},
		{"three", nil, []string{"a", "A", "\u0061\u200d"}, [][2]string{{"a", "A"}, {"a", "a\u200d"}}},
	} {
		added := make(map[string]bool)
		for _, name := range test.added {
			added[name] = true
		}
		got, err := alike(append(test.old, test.added...), added)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
}

// folding looks for files as a file system does that doesn't look at case or at the form of accents.
func folding(root string) func(string) (fs.FileInfo, error) {
	return func(name string) (fs.FileInfo, error) {
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return nil, err
		}
		at := root
		for part := range strings.SplitSeq(rel, "/") {
			entries, err := os.ReadDir(at)
			if err != nil {
				return nil, err
			}
			found := false
			for _, entry := range entries {
				if fold(entry.Name()) == fold(part) {
					at, found = filepath.Join(at, entry.Name()), true
				}
			}
			if !found {
				return nil, fs.ErrNotExist
			}
		}
		return os.Lstat(at)
	}
}

func TestClashes(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{".git/HEAD", "docs/a", "mine/Private"} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		added []string
		want  []string
	}{
		{[]string{"new", "docs/b"}, nil},
		{[]string{"new/x", "new/X"}, []string{"new/x and new/X"}},
		{[]string{"Docs/b"}, []string{"Docs/b and docs", "docs and Docs"}},
		{[]string{"mine/private"}, []string{"mine/private and mine/Private"}}, // which is in no tree
		{[]string{"docs/\u00e9", "docs/e\u0301"}, []string{"docs/\u00e9 and docs/e\u0301"}},
	} {
		var changes []Change
		for _, name := range test.added {
			changes = append(changes, Change{Path: name, NewMode: 0o100644})
		}
		names := append([]string{"docs/a"}, test.added...)
		found, err := disk{root: root, lstat: folding(root)}.clashes(t.Context(), changes, names)
		if diff := cmp.Diff(test.want, found); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", test.added, err, diff)
		}
		if found, err := (disk{root: root, lstat: os.Lstat}).clashes(t.Context(), changes, names); len(found) > 0 || err != nil {
			t.Errorf("where every spelling is another name, %q: %q, %v", test.added, found, err)
		}
	}
}

// TestApplyWhereAFIFOIs: a folder from inside has the name of a FIFO of the user's, which nobody ever writes to.
func TestApplyWhereAFIFOIs(t *testing.T) {
	b := newBox(t, map[string]string{"a": "1\n"})
	if err := unix.Mkfifo(filepath.Join(b.user.Dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "pipe/x", "2\n")
	if _, err := b.apply(Options{}); forage.ExitCode(err) != 7 {
		t.Errorf("%v, want a refusal", err)
	}
}

// TestAlikeIsBounded: of folders in folders without end, which cost an agent nothing.
func TestAlikeIsBounded(t *testing.T) {
	added := make(map[string]bool)
	var names []string
	for i := range 1100 {
		name := strconv.Itoa(i) + strings.Repeat("/a", 2000)
		names, added[name] = append(names, name), true
	}
	if _, err := alike(names, added); forage.ExitCode(err) != 7 {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestApplyTakesNamesThatDifferInCase(t *testing.T) {
	b := newBox(t, map[string]string{"readme": "1\n"})
	if _, err := os.Lstat(filepath.Join(b.user.Dir, "README")); err == nil {
		t.Skip("case doesn't count here")
	}
	b.write(b.work.Dir, "README", "2\n")
	b.mustApply(Options{})
	if status := b.user.Git("status", "--porcelain"); status != "" {
		t.Errorf("status: %q", status)
	}
}
