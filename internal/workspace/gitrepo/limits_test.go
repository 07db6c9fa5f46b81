package gitrepo

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/testgit"
)

// TestManyRefs: a repository with more than 100,000 refs, which the sandbox sees too, works like
// any other. What the agent adds to them is not lost.
func TestManyRefs(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	var many strings.Builder
	many.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	head := host.Git("rev-parse", "HEAD")
	for i := range 120_000 {
		fmt.Fprintf(&many, "%s refs/remotes/origin/%06d\n", head, i)
	}
	b := newBox(t, host, "box")
	write(t, filepath.Join(host.Dir, ".git/packed-refs"), many.String())
	write(t, b.path("packed-refs"), strings.ReplaceAll(many.String(), "refs/remotes/origin/", "refs/tags/"))
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
	b.inside.Git("update-ref", "refs/heads/other", b.inside.Git("commit-tree", "-m", "other", "-p", tip, tip+"^{tree}"))
	if status := b.unsaved(); status.Problem != "" || len(status.Elsewhere) != 1 {
		t.Errorf("unsaved: %+v", status)
	}
	if refs, kept := b.keep(); len(refs) != 2 {
		t.Errorf("kept: %+v", kept)
	}
}

// TestAKilledImportIsSwept: what it left in the user's repository goes with the next one.
func TestAKilledImportIsSwept(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	const ended = 1<<22 + 1 // above every process id
	objects := filepath.Join(b.work.Repository.Store, "objects")
	write(t, filepath.Join(objects, fmt.Sprintf("%s-%d-1", quarantineKind, ended), "pack/tmp_pack_x"), "half")
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
	b.sound()
}

// TestImportOnAFullDisk: nothing of an import that fails stays in the user's repository, and it
// works when there is room.
func TestImportOnAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	const variable = "FORAGE_TEST_SMALL_DISK"
	disk := os.Getenv(variable)
	if disk == "" {
		cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestImportOnAFullDisk$", "-test.v")
		cmd.Env = append(os.Environ(), variable+"="+t.TempDir())
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	must(t, unix.Mount("none", disk, "tmpfs", 0, "size=4m"))
	host := testgit.Init(t, disk)
	host.Commit("a", "one\n")
	b := newBox(t, host, "box")
	big := make([]byte, 8<<20)
	_, _ = rand.Read(big)
	tip := b.inside.Commit("big", string(big))
	for range 3 {
		if update, err := Import(t.Context(), b.work, b.scratch); err == nil || b.branch() != b.work.Base {
			t.Errorf("imported to a full disk: %+v", update)
		}
		b.clean()
	}
	must(t, unix.Mount("none", disk, "tmpfs", unix.MS_REMOUNT, "size=64m"))
	if update := b.importIt(); update.After != tip {
		t.Errorf("with room: %+v, want %s", update, tip)
	}
	b.sound()
}
