package child

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"

	"forage/internal/control"
	"forage/internal/landlock"
	"forage/internal/runtime"
	"forage/internal/seccomp"
)

// errTried ends a guest that was only a trial.
var errTried = errors.New("this was a trial")

// try does one by one what build does, and answers with what it found, as runtime.Finding.
func (b *builder) try(channel *control.Conn) error {
	var list []runtime.Finding
	tried := func(name string, required bool, err error, fix string) bool {
		f := runtime.Finding{Name: name, Required: required, OK: err == nil}
		if err != nil {
			f.Detail, f.Fix = err.Error(), fix
		}
		list = append(list, f)
		return f.OK
	}
	built := errors.Join(b.prepare(), b.makeTmpfs())
	if built == nil {
		built = b.makeRoot()
	}
	if tried("mounts in a user namespace", true, built, "allow mounting in user namespaces: AppArmor, SELinux or a container's own rules forbid it") {
		proc, err := take(b.background.proc)
		if tried("a /proc of the sandbox's own", true, err, "run Forage on the host: a container that covers parts of /proc keeps the kernel from giving out a whole one (docker: --security-opt systempaths=unconfined)") {
			tried("namespace quotas", true, b.limitNamespaces(proc), "a /proc/sys/user that user namespaces can write to is needed")
			unix.Close(proc)
		}
		tried("devices", true, b.makeDev(), "/dev/null, zero, full, random, urandom and tty must be the usual ones")
		tried("overlayfs in a user namespace", false, b.tryOverlay(), "needed for images only: Linux 5.11 or later with CONFIG_OVERLAY_FS (modprobe overlay)")
	}
	network, err := take(b.background.network)
	network.Close()
	tried("network namespace", true, err, "use a kernel with CONFIG_NET_NS")
	redirection := runtime.Finding{Name: "transparent redirection (nftables)", OK: network.Report.Redirected, Detail: strings.Join(network.Report.Notes, "; ")}
	if !redirection.OK {
		redirection.Fix = "modprobe nf_tables nft_redir nft_reject_inet (as root, on the host); without it programs reach the network only if they heed proxy variables"
	}
	filter, err := take(b.background.filter)
	if err == nil {
		err = seccomp.Install(filter)
	}
	tried("system call filter", true, err, "use a kernel with CONFIG_SECCOMP_FILTER")
	frame, err := control.Encode(control.Answer, append(list, redirection, tryLandlock()))
	if err != nil {
		return err
	}
	return errors.Join(channel.Send(frame), errTried)
}

func tryLandlock() runtime.Finding {
	active := landlock.Available(landlock.Options{})
	f := runtime.Finding{Name: "Landlock", OK: active.Signals && active.Files, Detail: fmt.Sprintf("ABI %d", active.ABI)}
	if !f.OK {
		f.Detail, f.Fix = strings.Join(active.Notes, "; "), "Linux 6.12 or later, started with landlock among lsm=; without it the other walls stand alone"
	}
	return f
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
