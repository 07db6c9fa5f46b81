package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
)

// TestExchanged: what an engine has bound by its path has to be what the host looked at.
func TestExchanged(t *testing.T) {
	dir := t.TempDir()
	source, other := filepath.Join(dir, "source"), filepath.Join(dir, "other")
	for _, path := range []string{source, other} {
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p := &plan{place: func(source string) string { return source }}
	for _, system := range []bool{false, true} { // an engine may be root: the system's are looked at, too
		looked, err := p.openTree(forage.Mount{Source: source, Target: "/shown", System: system}, true)
		if err != nil {
			t.Fatal(err)
		}
		b := &builder{}
		fd, _, err := b.open(looked)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		looked.Source = other
		if _, _, err := b.open(looked); err == nil || !strings.Contains(err.Error(), "exchanged") {
			t.Errorf("another folder in its place: %v", err)
		}
	}
	if fd, err := mount.Open(source); err != nil {
		t.Error(err)
	} else if err := (tree{}).same(fd); err != nil { // not looked at
		t.Error(err)
	} else {
		unix.Close(fd)
	}
}
