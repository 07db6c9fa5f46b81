package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

const someID = "0123456789abcdef0123456789abcdef01234567"

func TestParseRef(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		someID + "\n":                  {someID, ""},
		someID:                         {someID, ""},
		someID + " \t\n":               {someID, ""},
		"ref: refs/heads/main\n":       {"", "refs/heads/main"},
		"ref:refs/heads/x/y":           {"", "refs/heads/x/y"},
		"ref: HEAD\n":                  {},
		"ref: refs/heads/../../x\n":    {},
		"ref: refs/heads/a\nb\n":       {},
		strings.ToUpper(someID) + "\n": {},
		someID + "x":                   {},
		someID[1:]:                     {},
		"":                             {},
		"-" + someID[1:]:               {},
	} {
		id, target, err := parseRef([]byte(text))
		if diff := cmp.Diff(want, [2]string{id, target}); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
		if wanted := want == [2]string{}; wanted != errors.Is(err, errIrregular) {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestParsePacked(t *testing.T) {
	t.Parallel()
	got, err := parsePacked([]byte("# pack-refs with: peeled\n" + someID + " refs/tags/v1\n^" + someID + "\n" + someID + " refs/heads/x/y\n"))
	if diff := cmp.Diff(map[string]string{"refs/tags/v1": someID, "refs/heads/x/y": someID}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, text := range []string{
		someID + " refs/heads/cut", someID + "\trefs/heads/x\n", someID + " refs/heads/x \n", someID + " HEAD\n",
		someID + " refs/heads/a\x00b\n", someID + " refs/heads/--evil.lock\n", "\n", "^\n", someID[1:] + " refs/heads/x\n",
	} {
		if got, err := parsePacked([]byte(text)); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
}

func TestValidRef(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"refs/heads/main": true, "refs/heads/a/b-c_d.e": true, "refs/heads/--force": true, "refs/heads/ü": true, "refs/stash": true,
		"HEAD": false, "refs/": false, "refs/heads/": false, "refs//x": false, "refs/heads/.x": false, "refs/heads/x.lock": false,
		"refs/heads/x.lock/y": false, "refs/heads/x..y": false, "refs/heads/x.": false, "refs/heads/x@{1}": false,
		"refs/heads/a b": false, "refs/heads/a\nb": false, "refs/heads/a\x7f": false, "refs/heads/a~1": false, "refs/heads/a^": false,
		"refs/heads/a:b": false, "refs/heads/a?": false, "refs/heads/a*": false, "refs/heads/[a": false, `refs/heads/a\b`: false,
		"refs/heads/../../x": false, "refs/" + strings.Repeat("x", maxRefName): false, "/refs/heads/x": false,
	} {
		if got := validRef(name); got != want {
			t.Errorf("%.80q: %v, want %v", name, got, want)
		}
	}
}

func TestRefsOfHostileMetadata(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/main\n")
	write(t, filepath.Join(dir, "packed-refs"), someID+" refs/heads/main\n"+someID+" refs/heads/packed\n"+someID+" refs/heads/hidden\n")
	write(t, filepath.Join(dir, "refs/heads/x/y"), someID+"\n")
	write(t, filepath.Join(dir, "refs/heads/symbolic"), "ref: refs/heads/main\n")
	write(t, filepath.Join(dir, "refs/heads/main.lock"), "")
	write(t, filepath.Join(dir, "refs/heads/a b"), someID+"\n")
	write(t, filepath.Join(dir, "refs/heads/text"), "hello\n")
	write(t, filepath.Join(dir, "refs/heads/hidden"), "hello\n") // what git can't read is not what is packed
	must(t, os.Symlink("/etc/passwd", filepath.Join(dir, "refs/heads/link")))
	must(t, os.Symlink("/etc", filepath.Join(dir, "refs/linked")))
	must(t, unix.Mkfifo(filepath.Join(dir, "refs/heads/pipe"), 0o600))
	m, err := openMetadata(dir)
	must(t, err)
	defer m.close()
	refs, odd, err := m.refs()
	must(t, err)
	want := map[string]string{"refs/heads/main": someID, "refs/heads/packed": someID, "refs/heads/x/y": someID}
	if diff := cmp.Diff(want, refs.Values); diff != "" {
		t.Errorf("refs (-want +got):\n%s", diff)
	}
	wantOdd := []string{"refs/heads/a b", "refs/heads/hidden", "refs/heads/link", "refs/heads/pipe", "refs/heads/text", "refs/linked"}
	if diff := cmp.Diff(wantOdd, odd); diff != "" {
		t.Errorf("odd (-want +got):\n%s", diff)
	}
	if id, branch, err := m.head(); id != someID || branch != "refs/heads/main" || err != nil {
		t.Errorf("HEAD is %s, %s, %v", id, branch, err)
	}
	if id, err := m.branch("refs/heads/x"); id != "" || err != nil { // a folder
		t.Errorf("a folder is the branch %q, %v", id, err)
	}
}

func TestRefsOfAReftableAreNotTakenForNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "reftable/tables.list"), "x\n")
	write(t, filepath.Join(dir, "HEAD"), "ref: refs/heads/.invalid\n")
	m, err := openMetadata(dir)
	must(t, err)
	defer m.close()
	if _, err := m.branch("refs/heads/main"); err == nil {
		t.Error("a branch in a reftable is taken for absent")
	}
	if _, _, err := m.refs(); err == nil {
		t.Error("refs in a reftable are taken for none")
	}
}

func FuzzParseRef(f *testing.F) {
	f.Add([]byte(someID + "\n"))
	f.Add([]byte("ref: refs/heads/main\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		id, target, err := parseRef(text)
		if err != nil {
			if id != "" || target != "" {
				t.Errorf("%q: %q and %q beside %v", text, id, target, err)
			}
			return
		}
		if (id == "") == (target == "") || id != "" && !isHex(id) || target != "" && !validRef(target) {
			t.Errorf("%q: %q, %q", text, id, target)
		}
	})
}

func FuzzParsePacked(f *testing.F) {
	f.Add([]byte("# pack-refs with: peeled fully-peeled sorted \n" + someID + " refs/tags/v1\n^" + someID + "\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		refs, err := parsePacked(text)
		if err != nil && refs != nil {
			t.Errorf("%q: refs beside %v", text, err)
		}
		for name, id := range refs {
			if !validRef(name) || !isHex(id) {
				t.Errorf("%q: %q at %q", text, name, id)
			}
		}
	})
}
