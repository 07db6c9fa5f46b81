package acceptance

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFollow wants a secret to be found that isn't in the file any more when its writer has ended, also between two of
// the parts that are looked at, and one in what is left.
func TestFollow(t *testing.T) {
	t.Parallel()
	secrets := map[string]string{"first": random(40), "between": random(40), "last": random(40)}
	s := newSearch(secrets)
	path := filepath.Join(t.TempDir(), "core")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const size = 64 << 20
	for name, at := range map[string]int64{"first": 10, "between": 2<<20 - 20, "last": size - 100} {
		if _, err := file.WriteAt([]byte(secrets[name]), at); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Fallocate(int(file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, 8<<20, 1<<20); err != nil {
		t.Skipf("this file system makes no holes: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { s.follow(ctx, "core", path); close(done) }()
	wait(t, "what has been looked at is gone", func() bool {
		at, err := file.Seek(0, unix.SEEK_DATA)
		return err != nil || at > 4<<20
	})
	stop()
	<-done
	s.sparse("core", path)
	for name := range secrets {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(s.found)), func(place string) bool { return strings.HasPrefix(place, "core: "+name+", ") }) {
			t.Errorf("%s is not found", name)
		}
	}
}
