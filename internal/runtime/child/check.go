package child

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/limits"
	"forage/internal/mount"
	"forage/internal/runtime"
)

// Check tries what the runtime relies on: it starts a guest that does everything once
// and ends. Nothing of it is left.
func (r *Runtime) Check(ctx context.Context) []runtime.Finding {
	if r.config.Container != nil {
		return r.checkContainer(ctx)
	}
	running := runningKernel()
	kernel := runtime.Finding{Name: "kernel", Required: true, OK: !running.before(leastKernel), Detail: "Linux " + running.String()}
	if !kernel.OK {
		kernel.Fix = "Linux " + leastKernel.String() + " or later is needed"
	}
	findings := []runtime.Finding{kernel}
	command, err := r.config.Namespaces.Command(r.program(), r.argument(), trialIdentity())
	if err != nil {
		return append(findings, runtime.Finding{Name: "namespaces", Required: true, Detail: err.Error(), Fix: forage.Hint(err)})
	}
	t, err := r.try(ctx)
	findings = append(append(findings, checkNamespaces(err, command)), t...)
	if command.Client {
		return findings // the rest is the engine's
	}
	if os.Geteuid() == 0 {
		f := runtime.Finding{Name: "idmapped mounts", Required: true}
		if err := r.tryIdmap(); err != nil {
			f.Detail, f.Fix = err.Error(), cmp.Or(forage.Hint(err), "root needs a file system that maps owners; ordinary users don't")
		}
		f.OK = f.Detail == ""
		findings = append(findings, f)
	} else if f, needed := checkGroups(command.Helper); needed {
		findings = append(findings, f)
	}
	return append(findings, checkCrashes(hostFiles), checkLimit("memoryMax", forage.Limits{MemoryMax: 1 << 30}), checkLimit("cpuQuota", forage.Limits{CPUQuota: 100}))
}

func checkNamespaces(err error, c Command) runtime.Finding {
	f := runtime.Finding{Name: "user namespaces", Required: true, OK: err == nil}
	if err == nil {
		return f
	}
	f.Detail, f.Fix = err.Error(), "see that ordinary users may make user namespaces"
	if c.Client {
		f.Fix = "see that `" + c.Argv[0] + " run` works: the engine has to start a container"
	}
	if found, blocked := findBlocker(hostFiles); blocked {
		f.Detail, f.Fix = found.detail+": "+f.Detail, found.fix
	}
	return f
}

// try starts a guest for a trial and returns what it found.
func (r *Runtime) try(ctx context.Context) (t []runtime.Finding, err error) {
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "a guest that was started to try it")
	defer cancel()
	ids := idMaps{who: trialIdentity(), root: os.Geteuid() == 0}
	w := r.launch(ids.who)
	defer w.end()
	if w.err != nil {
		return nil, w.err
	}
	stop := context.AfterFunc(ctx, func() { w.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if !w.process.helper && !w.process.client {
		if _, err := ids.write(ctx, w.process.pid); err != nil {
			return nil, err
		}
	}
	b := boot{Trial: true, Name: "trial", Identity: ids.who, DiskMax: 1 << 20, Inodes: 1 << 10}
	if err := w.control.Send(control.Frame{Kind: control.Boot, Blob: b.encode()}); err != nil {
		return nil, err
	}
	frame, _, err := w.control.Receive()
	if err != nil {
		return nil, fmt.Errorf("a guest that was started for a trial ended: %w", err)
	}
	if frame.Kind != control.Answer {
		return nil, fmt.Errorf("a guest that was started for a trial answered %q", frame.Kind)
	}
	return t, frame.Decode(&t)
}

// trialIdentity is the caller, or with root a user who owns nothing.
func trialIdentity() forage.Identity {
	who := forage.Identity{User: forage.UserName, Home: forage.HomePath, UID: os.Geteuid(), GID: os.Getegid()}
	if who.UID == 0 {
		who.UID, who.GID = 0x6fffffff, 0x6fffffff
	}
	who.HostUID, who.HostGID = who.UID, who.GID
	return who
}

// tryIdmap tries an idmapped mount where the run-time folder is or, if it is not there yet, will be.
func (r *Runtime) tryIdmap() error {
	dir := filepath.Clean(r.config.Dir)
	for info, err := os.Stat(dir); (err != nil || !info.IsDir()) && dir != filepath.Dir(dir); info, err = os.Stat(dir) {
		dir = filepath.Dir(dir)
	}
	fd, err := mount.Open(dir)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	m := idMaps{who: trialIdentity(), root: true}
	mount, err := m.detached(fd, tree{Mount: forage.Mount{Source: dir}}, mount.Owner{})
	if err != nil {
		return err
	}
	return mount.Close()
}

// checkGroups says whether an ordinary caller's supplementary groups stay
// behind; not needed is for a caller who has none.
func checkGroups(helper bool) (f runtime.Finding, needed bool) {
	m := idMaps{}
	others, err := m.findGroups()
	if err != nil || !others {
		return f, false
	}
	f.Name, f.OK = "supplementary groups are dropped", m.subgid != 0 && !helper
	if !f.OK {
		f.Detail = "they stay: files that only your groups may read can be read inside, where they are mounted"
		f.Fix = "as root: usermod --add-subgids 100000-165535 USER, and install newgidmap (package uidmap or shadow-utils)"
	}
	if helper {
		f.Fix = "the runtime native can drop them"
	}
	return f, true
}

// checkCrashes says whether a crash inside starts the host's handler of core dumps (core(5), "Piping
// core dumps to a program").
func checkCrashes(read func(path string) (string, bool)) runtime.Finding {
	f := runtime.Finding{Name: "crashes inside start no program on the host", OK: true}
	var core unix.Rlimit
	pattern, _ := read("/proc/sys/kernel/core_pattern")
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &core); err == nil && core.Max == 0 && strings.HasPrefix(pattern, "|") {
		f.OK, f.Detail = false, "your hard limit of core dumps is 0, with which the kernel starts "+pattern[1:]
		f.Fix = "allow a hard limit of 1 or more (limits.conf(5), core)"
	}
	return f
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
