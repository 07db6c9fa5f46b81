package native

import (
	"errors"

	"golang.org/x/sys/unix"

	"forage"
)

// selfExe is the running program.
const selfExe = "/proc/self/exe"

// Supports reports what spec asks for and this host can't enforce.
func (r *Runtime) Supports(spec forage.Spec) error {
	switch spec.Rootfs.Kind {
	case forage.RootfsHost, forage.RootfsDir, forage.RootfsOCI, forage.RootfsImage:
	default:
		return forage.Errorf(forage.ErrUnsupported, "native can't use a root filesystem of kind %q", spec.Rootfs.Kind)
	}
	if _, err := identify(spec.Identity); err != nil {
		return err
	}
	return nil
}

// diagnose adds to an error of the kernel what usually causes it.
func diagnose(err error) error {
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EACCES) {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%w", err), "`forage-ctl doctor` says what this host lacks")
	}
	return err
}
