// Package testdir has what tests of many rooms need: folders that t.TempDir is not good enough for,
// ports of their own, how much time there is, and what ends a test.
package testdir

import (
	"errors"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// longest is how long a folder's path may be to leave room for the names of sockets in it: sun_path
// holds 107 bytes (unix(7)).
const longest = 70

// plain is a path that a shell, a URL and a configuration file take for what it is, as it is.
var plain = regexp.MustCompile(`^[A-Za-z0-9/._-]+$`)

// Base is where folders with plain, short paths are made: the folder of temporary files if it has
// one itself, or /tmp.
func Base() string {
	if dir := os.TempDir(); len(dir) <= longest/2 && plain.MatchString(dir) {
		return dir
	}
	return "/tmp"
}

// Must ends the test if there is an error.
func Must(t interface {
	Helper()
	Fatal(...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Same reports how got differs from want. about says what they are.
func Same(t interface {
	Helper()
	Errorf(string, ...any)
}, about string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", about, diff)
	}
}

// Fails reports an err that is not of kind. about says whose it is.
func Fails(t testing.TB, about string, kind, err error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", about, err, kind)
	}
}

// Plain is a folder of the test in which sockets can be made and reached by their paths, and whose
// path can stand anywhere unquoted, whatever TMPDIR is.
func Plain(t testing.TB) string {
	t.Helper()
	if dir := t.TempDir(); len(dir) <= longest && plain.MatchString(dir) {
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
