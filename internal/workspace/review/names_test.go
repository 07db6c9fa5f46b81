package review

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

// TestApplyWhereAFIFOIs: a folder from inside has the name of a FIFO of the user's, which nobody ever writes to.
func TestApplyWhereAFIFOIs(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a": "1\n"})
	if err := unix.Mkfifo(filepath.Join(b.user.Dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.write(b.work.Dir, "pipe/x", "2\n")
	if _, err := b.apply(Options{}); forage.ExitCode(err) != 7 {
		t.Errorf("%v, want a refusal", err)
	}
}

func TestApplyTakesNamesThatDifferInCase(t *testing.T) {
	t.Parallel()
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
