package gitrepo

import (
	"errors"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

// A process can be killed at any moment, and what it has in the folder for temporary files then is
// nobody's.
func TestSavedInItsOwnFolder(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	events, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	if _, err := unix.InotifyAddWatch(events, dir, unix.IN_CREATE); err != nil {
		t.Fatal(err)
	}
	w := forage.Workspace{Repository: &forage.Repository{Dir: filepath.Join(t.TempDir(), "main")}}
	if err := saveImported(w, imported{Tip: "1"}); err != nil {
		t.Fatal(err)
	}
	if n, err := unix.Read(events, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("files were made in the folder for temporary files (%d bytes of events, %v)", n, err)
	}
	if got, err := loadImported(w); err != nil || got.Tip != "1" {
		t.Errorf("read back: %+v, %v", got, err)
	}
}
