package snapshot_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sharesVar says that the file system of temporary folders is one that shares blocks.
const sharesVar = "FORAGE_SNAPSHOT_SHARES"

// TestFileSystems runs the suite on file systems that share blocks, each in an image, mounted where nobody else sees it.
func TestFileSystems(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system needs root")
	}
	for _, name := range []string{"btrfs", "xfs"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			image, mounted := filepath.Join(dir, "image"), filepath.Join(dir, "m")
			must(t, os.Mkdir(mounted, 0o755), os.WriteFile(image, nil, 0o600), os.Truncate(image, 1<<30))
			mkfs, err := exec.LookPath("mkfs." + name)
			if err != nil {
				t.Skip(err)
			}
			if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			// One process mounts it and goes on as the suite: a device that is only being given up is in the way of the next mount.
			suite := exec.Command("unshare", "--mount", "--propagation", "private", "--", "sh", "-c", `mount -t "$0" -o loop "$1" "$2" || exit 32; shift 2 && exec "$@"`,
				name, image, mounted, os.Args[0], "-test.skip=^(TestFileSystems|TestFullDisk|TestKilled)$", "-rapid.checks=20")
			suite.Env = append(os.Environ(), "TMPDIR="+mounted, sharesVar+"=1")
			out, err := suite.CombinedOutput()
			if suite.ProcessState.ExitCode() == 32 || bytes.HasPrefix(out, []byte("unshare: ")) {
				t.Skipf("mounting an image: %v\n%s", err, out)
			}
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// TestSharedBlocks: what a snapshot has, and what is restored from it, takes no room of its own.
func TestSharedBlocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	content := make([]byte, 32<<20)
	rand.NewChaCha8([32]byte{}).Read(content)
	must(t, os.WriteFile(p.path("large"), content, 0o644), os.WriteFile(p.path("medium"), content[:100_000], 0o644))
	must(t, os.WriteFile(p.path("probe"), content[:100_000], 0o644))
	if !clones(t, p.path("probe"), p.path("clone")) {
		if os.Getenv(sharesVar) != "" {
			t.Fatal("it shares no blocks")
		}
		t.Skip("the file system of temporary folders shares no blocks")
	}
	must(t, os.Remove(p.path("probe")), os.Remove(p.path("clone")))
	before := used(t, p.folder.Path)
	request := p.request()
	request.MaxCopied = 1 // nothing is copied
	made, err := p.store.Create(t.Context(), request)
	must(t, err)
	for _, name := range []string{"large", "medium"} {
		if shared, all := extents(t, p.path(name)); shared != all {
			t.Errorf("kept: %d of %d extents of %s are shared", shared, all, name)
		}
		must(t, os.Remove(p.path(name)))
	}
	p.restore(t, made.ID)
	for _, name := range []string{"large", "medium"} {
		if shared, all := extents(t, p.path(name)); shared != all {
			t.Errorf("restored: %d of %d extents of %s are shared", shared, all, name)
		}
	}
	if os.Getenv(sharesVar) == "" {
		return // others use this file system, too
	}
	if more := used(t, p.folder.Path) - before; more > int64(len(content))/4 {
		t.Errorf("it takes %d bytes", more)
	}
}

// clones says whether the file system makes to share the blocks of from.
func clones(t *testing.T, from, to string) bool {
	t.Helper()
	source, err := os.Open(from)
	must(t, err)
	defer source.Close()
	target, err := os.Create(to)
	must(t, err)
	defer target.Close()
	return unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) == nil
}

// used is how much is, of the whole file system, in bytes.
func used(t *testing.T, path string) int64 {
	t.Helper()
	dir, err := os.Open(path)
	must(t, err)
	defer dir.Close()
	must(t, unix.Syncfs(int(dir.Fd()))) // and not all of the machine's
	var st unix.Statfs_t
	must(t, unix.Statfs(path, &st))
	return int64(st.Blocks-st.Bfree) * st.Bsize
}

// extents counts those of a file that it shares with another one, and all: linux/fiemap.h.
func extents(t *testing.T, path string) (shared, all int) {
	t.Helper()
	const (
		getMap    = 0xc020660b // FS_IOC_FIEMAP
		sync      = 1          // FIEMAP_FLAG_SYNC
		areShared = 0x2000     // FIEMAP_EXTENT_SHARED
	)
	var m struct {
		start, length                  uint64
		flags, mapped, count, reserved uint32
		extents                        [256]struct {
			logical, physical, length uint64
			_                         [2]uint64
			flags                     uint32
			_                         [3]uint32
		}
	}
	m.length, m.flags, m.count = ^uint64(0), sync, uint32(len(m.extents))
	file, err := os.Open(path)
	must(t, err)
	defer file.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, file.Fd(), getMap, uintptr(unsafe.Pointer(&m))); errno != 0 {
		t.Fatal(fmt.Errorf("asking for extents: %w", errno))
	}
	for _, extent := range m.extents[:m.mapped] {
		all++
		if extent.flags&areShared != 0 {
			shared++
		}
	}
	if all == 0 {
		t.Errorf("%s has no extents", path)
	}
	return shared, all
}
