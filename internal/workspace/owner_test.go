package workspace

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
)

// TestCheckOwner goes as the one who runs the tests, and as somebody else.
func TestCheckOwner(t *testing.T) {
	base := folderOf(t)
	make := func(names ...string) {
		for _, name := range names {
			if err := os.MkdirAll(filepath.Join(base, name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	make("mine/inner", "open/inner", "sticky/inner")
	me := uint32(os.Geteuid())
	other := me + 1
	if me == 0 {
		give(t, filepath.Join(base, "mine"), 4242)
		me, other = 4242, 4243
	}
	for name, mode := range map[string]os.FileMode{"open": 0o777, "sticky": os.ModeSticky | 0o777} {
		if err := os.Chmod(filepath.Join(base, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(base, "link")
	if err := os.Symlink(filepath.Join(base, "mine"), link); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path   string
		caller uint32
		says   string // "" is: nothing
	}{
		{"/", me, ""},
		{"/usr", me, ""},
		{"mine", me, ""},
		{"mine/inner", me, ""},
		{"link/inner", me, ""},
		{"sticky/inner", me, ""},
		{"open", me, "everybody can write to " + base + "/open,"},
		{"open/inner", me, "everybody can write to " + base + "/open,"},
		{"mine", other, base + "/mine belongs to "},
		{"link", other, "belongs to "},
		{"mine/inner", other, "belongs to "},
	} {
		path := test.path
		if !filepath.IsAbs(path) {
			path = filepath.Join(base, path)
		}
		err := checkOwner(path, test.caller)
		if test.says == "" && err != nil {
			t.Errorf("%s for %d: %v", test.path, test.caller, err)
		}
		if test.says != "" && (!errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), test.says) || forage.Hint(err) == "") {
			t.Errorf("%s for %d: %v (hint: %s), want %q", test.path, test.caller, err, forage.Hint(err), test.says)
		}
	}
	if err := checkOwner(filepath.Join(base, "none"), me); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what isn't there: %v", err)
	}
}

// TestCheckOwnerOnTheWay: what is root's in the folder of somebody who can replace it, and behind a
// link of theirs.
func TestCheckOwnerOnTheWay(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	base := folderOf(t)
	theirs, roots := filepath.Join(base, "theirs"), filepath.Join(base, "roots")
	link := filepath.Join(base, "link")
	if err := errors.Join(os.MkdirAll(filepath.Join(theirs, "roots"), 0o755), os.Mkdir(roots, 0o755), os.Symlink(roots, link),
		os.Chown(theirs, 4242, 4242), os.Lchown(link, 4242, 4242)); err != nil {
		t.Fatal(err)
	}
	if err := CheckOwner(roots); err != nil {
		t.Error(err)
	}
	want := theirs + " belongs to user 4242, who can put something else in the place of " + theirs + "/roots"
	if err := CheckOwner(filepath.Join(theirs, "roots")); !errors.Is(err, forage.ErrRefused) || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if err := CheckOwner(link); !errors.Is(err, forage.ErrRefused) {
		t.Errorf("behind another user's link: %v", err)
	}
}

// folderOf is a new folder, with links resolved.
func folderOf(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// give makes a folder and all in it somebody's.
func give(t *testing.T, dir string, uid int) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}); err != nil {
		t.Fatal(err)
	}
}
