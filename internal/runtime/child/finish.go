package child

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// prepare settles what the process inherited. The umask lets folders have
// exactly the mode that is asked for; finish sets the usual one.
func (b *builder) prepare() error {
	unix.Umask(0)
	if err := unix.Sethostname([]byte(b.boot.Name)); err != nil {
		return fmt.Errorf("sethostname: %w", err)
	}
	if b.boot.DropGroups {
		if err := syscall.Setgroups(nil); err != nil {
			return fmt.Errorf("dropping supplementary groups: %w", err)
		}
	}
	return nil
}

// pivot makes the new tree the root and lets go of the old one: pivot_root(2),
// "pivot_root(".", ".")". The old root then lies on top of the new one, and on top
// of it the tmpfs, which was attached there.
func (b *builder) pivot() error {
	if err := unix.Fchdir(b.root); err != nil {
		return fmt.Errorf("fchdir: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	for _, what := range []string{"the tmpfs", "the old root"} {
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
			return fmt.Errorf("detaching %s: %w", what, err)
		}
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("chdir: %w", err)
	}
	// Nothing may lie on top of the root: "/.." would lead there.
	var root, above unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, "/", 0, unix.STATX_MNT_ID, &root); err != nil {
		return fmt.Errorf("statx: %w", err)
	}
	if err := unix.Statx(unix.AT_FDCWD, "/..", 0, unix.STATX_MNT_ID, &above); err != nil {
		return fmt.Errorf("statx: %w", err)
	}
	if root.Mnt_id != above.Mnt_id {
		return errors.New("the old root is still there")
	}
	return nil
}

// namespaceQuotas are per user namespace: what is used inside counts against
// the caller's own quota too, and must not use it up: 128 inotify instances
// inside starved a whole host.
var namespaceQuotas = []quota{
	{"max_fanotify_groups", "0"},
	{"max_fanotify_marks", "0"},
}

// inotifyShare is the part of the caller's inotify(7) quotas that one sandbox gets.
const inotifyShare = 4

// quota is a file below /proc/sys/user: namespaces(7), "The /proc/sys/user directory".
type quota struct{ name, value string }

// limitNamespaces writes the sandbox's own limits, through its own /proc.
func (b *builder) limitNamespaces(proc int) error {
	quotas, root := slices.Clone(namespaceQuotas), fmt.Sprintf("/proc/self/fd/%d/", proc)
	for _, kind := range []string{"instances", "watches"} {
		text, err := os.ReadFile(root + "sys/fs/inotify/max_user_" + kind)
		if errors.Is(err, os.ErrNotExist) { // there is no inotify
			continue
		}
		all, syntax := strconv.Atoi(strings.TrimSpace(string(text)))
		if err := errors.Join(err, syntax); err != nil {
			return err
		}
		quotas = append(quotas, quota{"max_inotify_" + kind, strconv.Itoa(all / inotifyShare)})
	}
	if !b.boot.Nesting {
		// Without a user namespace of its own nothing inside can make another of any kind.
		quotas = append(quotas, quota{"max_user_namespaces", "0"})
	}
	for _, q := range quotas {
		if err := writeFile(root+"sys/user/"+q.name, q.value); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("user/%s: %w", q.name, err)
		}
	}
	return nil
}
