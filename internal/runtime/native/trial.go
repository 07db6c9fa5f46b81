package native

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"forage/internal/frames"
	"forage/internal/landlock"
	"forage/internal/netns"
	"forage/internal/seccomp"
)

// trial is what a throw-away guest found out by doing it, for Check. A text
// that is not empty says why something does not work.
type trial struct {
	Mounts   string          `json:"mounts,omitempty"` // tmpfs, bind mounts and attributes
	Proc     string          `json:"proc,omitempty"`
	Overlay  string          `json:"overlay,omitempty"`
	Quotas   string          `json:"quotas,omitempty"` // /proc/sys/user
	Devices  string          `json:"devices,omitempty"`
	Network  string          `json:"network,omitempty"`
	Report   netns.Report    `json:"report"`
	Seccomp  string          `json:"seccomp,omitempty"`
	Landlock landlock.Active `json:"landlock"`
}

// errTried ends a guest that was only a trial.
var errTried = errors.New("this was a trial")

// try does one by one what build does, and reports it.
func (b *builder) try(control *frames.Conn) error {
	text := func(err error) string {
		if err == nil {
			return ""
		}
		return err.Error()
	}
	var t trial
	t.Mounts = text(errors.Join(b.prepare(), b.makeTmpfs()))
	if t.Mounts == "" {
		t.Mounts = text(b.makeRoot())
	}
	if t.Mounts == "" {
		t.Overlay = text(b.tryOverlay())
		t.Devices = text(b.makeDev())
		t.Proc, t.Quotas = b.tryProc()
	}
	network, err := b.aside.takeNetwork()
	network.Close()
	t.Report, t.Network = network.Report, text(err)
	t.Landlock = landlock.Available(landlock.Options{})
	filter, err := b.aside.takeFilter()
	if err == nil {
		err = seccomp.Install(filter)
	}
	t.Seccomp = text(err)
	frame, err := frames.Encode(frames.Answer, t)
	if err != nil {
		return err
	}
	return errors.Join(control.Send(frame), errTried)
}

func (b *builder) tryProc() (mount, quotas string) {
	proc, err := b.aside.takeProc()
	if err != nil {
		return err.Error(), ""
	}
	defer unix.Close(proc)
	if err := b.limitNamespaces(proc); err != nil {
		quotas = err.Error()
	}
	return "", quotas
}

// tryOverlay mounts an overlay of an empty folder, without attaching it.
func (b *builder) tryOverlay() error {
	for _, dir := range []string{dirUpper, dirWork, dirLower} {
		if err := unix.Mkdirat(b.tmpfs, dir, 0o755); err != nil {
			return fmt.Errorf("making %s: %w", dir, err)
		}
	}
	fd, err := b.overlay([]string{dirLower}, dirUpper, dirWork)
	if err != nil {
		return err
	}
	return unix.Close(fd)
}
