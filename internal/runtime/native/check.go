package native

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/frames"
	"forage/internal/limits"
	"forage/internal/mount"
	"forage/internal/runtime"
)

// trialTimeout is how long a throw-away guest has, on a busy machine too.
const trialTimeout = time.Minute

// Check tries what the runtime relies on: it starts a guest that does everything once
// and ends. Nothing of it is left.
func (r *Runtime) Check(ctx context.Context) []runtime.Finding {
	findings := []runtime.Finding{checkKernel(runningKernel())}
	t, err := r.try(ctx)
	findings = append(findings, checkNamespaces(err))
	if err == nil {
		findings = append(findings, t.findings()...)
	}
	if os.Geteuid() == 0 {
		findings = append(findings, r.checkIdmap())
	} else if f, needed := checkGroups(); needed {
		findings = append(findings, f)
	}
	return append(findings, checkLimit("memoryMax", forage.Limits{MemoryMax: 1 << 30}), checkLimit("cpuQuota", forage.Limits{CPUQuota: 100}))
}

func checkKernel(running kernelVersion) runtime.Finding {
	f := runtime.Finding{Name: "kernel", Required: true, OK: !running.before(leastKernel), Detail: "Linux " + running.String()}
	switch {
	case !f.OK:
		f.Fix = "Linux " + leastKernel.String() + " or later is needed"
	case running.before(tasksKernel):
		f.Detail += "; tasksMax needs " + tasksKernel.String()
	}
	return f
}

func checkNamespaces(err error) runtime.Finding {
	f := runtime.Finding{Name: "user namespaces", Required: true, OK: err == nil}
	if err == nil {
		return f
	}
	f.Detail, f.Fix = err.Error(), "see that ordinary users may make user namespaces"
	if found, blocked := findBlocker(hostFiles); blocked {
		f.Detail, f.Fix = found.detail+": "+f.Detail, found.fix
	}
	return f
}

// try starts a guest for a trial and returns what it found.
func (r *Runtime) try(ctx context.Context) (t trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, trialTimeout)
	defer cancel()
	host, guest, err := frames.Pair()
	if err != nil {
		return t, err
	}
	defer guest.Close()
	control, err := frames.New(host, frames.FromGuest())
	if err != nil {
		return t, err
	}
	defer control.Close()
	ids := idMaps{who: trialIdentity(), root: os.Geteuid() == 0}
	process, err := spawn(cmp.Or(r.config.Self, selfExe), guest, ids, nil)
	if err != nil {
		return t, err
	}
	defer func() {
		process.kill()
		<-process.done
	}()
	guest.Close()
	stop := context.AfterFunc(ctx, func() { control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if _, err := ids.write(ctx, process.pid); err != nil {
		return t, err
	}
	return t, exchange(control, &t)
}

func exchange(control *frames.Conn, t *trial) error {
	b := boot{Trial: true, Name: "trial", Identity: trialIdentity(), DiskMax: 1 << 20, Inodes: 1 << 10}
	if err := control.Send(frames.Frame{Kind: frames.Boot, Blob: b.encode()}); err != nil {
		return err
	}
	frame, _, err := control.Receive()
	if err != nil {
		return fmt.Errorf("a guest that was started for a trial ended: %w", err)
	}
	if frame.Kind != frames.Answer {
		return fmt.Errorf("a guest that was started for a trial answered %q", frame.Kind)
	}
	return frame.Decode(t)
}

// trialIdentity is the caller, or with root somebody who owns nothing.
func trialIdentity() forage.Identity {
	who := forage.Identity{User: forage.UserName, Home: forage.HomePath, UID: os.Geteuid(), GID: os.Getegid()}
	if who.UID == 0 {
		who.UID, who.GID = 0x6fffffff, 0x6fffffff
	}
	who.HostUID, who.HostGID = who.UID, who.GID
	return who
}

// findings says what came of a trial.
func (t trial) findings() []runtime.Finding {
	list := []runtime.Finding{
		finding("mounts in a user namespace", true, t.Mounts, "allow mounting in user namespaces: AppArmor, SELinux or a container's own rules forbid it"),
		finding("a /proc of the sandbox's own", true, t.Proc, "run Forage on the host: a container that covers parts of /proc keeps the kernel from giving out a whole one (docker: --security-opt systempaths=unconfined)"),
		finding("devices", true, t.Devices, "/dev/null, zero, full, random, urandom and tty must be the usual ones"),
		finding("namespace quotas", true, t.Quotas, "a /proc/sys/user that user namespaces can write to is needed"),
		finding("system call filter", true, t.Seccomp, "use a kernel with CONFIG_SECCOMP_FILTER"),
		finding("network namespace", true, t.Network, "use a kernel with CONFIG_NET_NS"),
		finding("overlayfs in a user namespace", false, t.Overlay, "needed for images only: Linux 5.11 or later with CONFIG_OVERLAY_FS (modprobe overlay)"),
		t.redirection(),
		{Name: "Landlock", OK: t.Landlock.Signals && t.Landlock.Files, Detail: strings.Join(t.Landlock.Notes, "; ")},
	}
	last := &list[len(list)-1]
	if last.OK {
		last.Detail = fmt.Sprintf("ABI %d", t.Landlock.ABI)
	} else {
		last.Fix = "Linux 6.12 or later, started with landlock among lsm=; without it the other walls stand alone"
	}
	return list
}

func (t trial) redirection() runtime.Finding {
	f := runtime.Finding{Name: "transparent redirection (nftables)", OK: t.Report.Redirected, Detail: strings.Join(t.Report.Notes, "; ")}
	if !f.OK {
		f.Fix = "modprobe nf_tables nft_redir nft_reject_inet (as root, on the host); without it programs reach the network only if they heed proxy variables"
	}
	return f
}

// finding is one whose trouble says why it does not work; "" is that it does.
func finding(name string, required bool, trouble, fix string) runtime.Finding {
	f := runtime.Finding{Name: name, Required: required, OK: trouble == "", Detail: trouble}
	if !f.OK {
		f.Fix = fix
	}
	return f
}

// checkIdmap tries an idmapped mount where the run-time folder is.
func (r *Runtime) checkIdmap() runtime.Finding {
	f := runtime.Finding{Name: "idmapped mounts", Required: true}
	err := tryIdmap(existing(r.config.Dir))
	f.OK = err == nil
	if err != nil {
		f.Detail, f.Fix = err.Error(), cmp.Or(forage.Hint(err), "root needs Linux 5.12 or later with a file system that maps owners; ordinary users don't")
	}
	return f
}

func tryIdmap(dir string) error {
	fd, err := mount.Open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	m := idMaps{who: trialIdentity(), root: true}
	mount, err := m.detached(fd, tree{Mount: forage.Mount{Source: dir}}, ownership{mapped: true})
	if err != nil {
		return err
	}
	return mount.Close()
}

// existing is dir, or the closest folder above it that is there.
func existing(dir string) string {
	for dir != "/" && dir != "" {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return dir
		}
		dir = dir[:max(0, strings.LastIndexByte(dir, '/'))]
	}
	return "/"
}

// checkGroups says whether an ordinary caller's supplementary groups stay
// behind; not needed is for a caller who has none.
func checkGroups() (f runtime.Finding, needed bool) {
	groups, err := os.Getgroups()
	others := len(groups) - 1
	if err != nil || others < 1 {
		return f, false
	}
	f.Name = "supplementary groups are dropped"
	m := idMaps{}
	if err := m.findGroups(); err != nil || m.subgid == 0 {
		f.Detail = "they stay: files that only your groups may read can be read inside, where they are mounted"
		f.Fix = "as root: usermod --add-subgids 100000-165535 USER, and install newgidmap (package uidmap or shadow-utils)"
		return f, true
	}
	f.OK = true
	return f, true
}

func checkLimit(name string, l forage.Limits) runtime.Finding {
	f := runtime.Finding{Name: name}
	enforcer, err := limits.Find(l)
	if err != nil {
		f.Detail, f.Fix = err.Error(), forage.Hint(err)
		return f
	}
	f.OK, f.Detail = true, enforcer.String()
	return f
}
