package child

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/limits"
	"forage/internal/rootfs"
)

// selfExe is the running program.
const selfExe = "/proc/self/exe"

// leastKernel is the version of Linux without which nothing starts.
var leastKernel = kernelVersion{5, 14} // RLIMIT_NPROC is counted per user namespace; mount_setattr(2) came with 5.12

// Supports reports what spec asks for and this host can't enforce.
func (r *Runtime) Supports(spec forage.Spec) error {
	if err := r.Info().Refuses(spec); err != nil {
		return err
	}
	if c := r.config.Container; c != nil {
		if _, err := c.Command(); err != nil {
			return err
		}
	}
	if _, err := r.config.Namespaces.Command(r.program(), r.argument(), spec.Identity); err != nil {
		return err
	}
	if _, err := identify(spec.Identity); err != nil {
		return err
	}
	if r.config.Stream && r.config.Container == nil && os.Geteuid() == 0 {
		return forage.Errorf(forage.ErrUnsupported, "root's mounts can't cross a stream")
	}
	if err := supportsKernel(runningKernel(), spec); err != nil {
		return err
	}
	_, err := limits.Find(spec.Limits)
	return err
}

func supportsKernel(running kernelVersion, spec forage.Spec) error {
	if running.before(leastKernel) {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "this runtime needs Linux %v, this is %v", leastKernel, running), "update the kernel")
	}
	if spec.Limits.TasksMax < 0 || spec.Limits.DiskMax < 0 {
		return forage.Errorf(forage.ErrUsage, "a limit can't be negative")
	}
	return nil
}

// kernelVersion is major and minor.
type kernelVersion [2]int

func (v kernelVersion) String() string { return fmt.Sprintf("%d.%d", v[0], v[1]) }

func (v kernelVersion) before(other kernelVersion) bool {
	return v[0] < other[0] || v[0] == other[0] && v[1] < other[1]
}

func runningKernel() kernelVersion {
	var v kernelVersion
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &v[0], &v[1])
	}
	return v
}

// diagnose turns an error of making namespaces, which is the host's fault, into
// one of kind ErrUnsupported that says what to do about it.
func diagnose(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOSPC),
		errors.Is(err, unix.EUSERS), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%w", err), namespaceFix())
	}
	return err
}

// explain adds to what a guest failed with what on this host keeps it from working. The
// kernel's answer comes as text.
func explain(err error) error {
	refused := slices.ContainsFunc([]unix.Errno{unix.EPERM, unix.EACCES, unix.ENOSPC}, func(e unix.Errno) bool {
		return strings.Contains(err.Error(), e.Error())
	})
	if forage.Hint(err) != "" || !refused {
		return err
	}
	if found, blocked := findBlocker(hostFiles); blocked {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%w (%s)", err, found.detail), found.fix)
	}
	return err
}

func namespaceFix() string {
	if found, blocked := findBlocker(hostFiles); blocked {
		return found.fix
	}
	return "`forage-ctl doctor` says what this host lacks"
}

// Has says whether the root filesystem of spec has a program at file.
func (r *Runtime) Has(spec forage.Spec, file string) bool {
	if spec.Rootfs.Kind == forage.RootfsHost {
		return rootfs.Visible(spec, file, nil)
	}
	return holds(spec.Rootfs.Lower, file)
}

// holds says whether one of the layers has something at path. Links in them are taken as the host's
// would be.
func holds(layers []string, path string) bool {
	return slices.ContainsFunc(layers, func(dir string) bool {
		_, err := os.Lstat(filepath.Join(dir, path))
		return err == nil
	})
}
