// Package testdir makes folders for tests that t.TempDir is not good enough for.
package testdir

import (
	"os"
	"testing"
)

// longest is how long a folder's path may be to leave room for the names of sockets in it: sun_path holds 107 bytes
// (unix(7)).
const longest = 70

// Base is where folders with sockets are made: the folder of temporary files, or /tmp where that has a long path.
func Base() string {
	if dir := os.TempDir(); len(dir) <= longest/2 {
		return dir
	}
	return "/tmp"
}

// Short is a folder of the test in which sockets can be made and reached by their paths, however long TMPDIR is.
func Short(t testing.TB) string {
	t.Helper()
	if dir := t.TempDir(); len(dir) <= longest {
		return dir
	}
	dir, err := os.MkdirTemp(Base(), "forage")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
