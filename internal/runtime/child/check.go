package child

import (
	"cmp"
	"context"
	"fmt"
	"os"
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
	findings := []runtime.Finding{checkKernel(runningKernel())}
	command, err := r.config.Namespaces.Command(r.program(), r.argument(), trialIdentity())
	if err != nil {
		return append(findings, runtime.Finding{Name: "namespaces", Required: true, Detail: err.Error(), Fix: forage.Hint(err)})
	}
	t, err := r.try(ctx)
	findings = append(append(findings, checkNamespaces(err)), t...)
	if os.Geteuid() == 0 {
		findings = append(findings, r.checkIdmap())
	} else if f, needed := checkGroups(command.Helper); needed {
		findings = append(findings, f)
	}
	return append(findings, checkLimit("memoryMax", forage.Limits{MemoryMax: 1 << 30}), checkLimit("cpuQuota", forage.Limits{CPUQuota: 100}))
}

func checkKernel(running kernelVersion) runtime.Finding {
	f := runtime.Finding{Name: "kernel", Required: true, OK: !running.before(leastKernel), Detail: "Linux " + running.String()}
	if !f.OK {
		f.Fix = "Linux " + leastKernel.String() + " or later is needed"
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
func (r *Runtime) try(ctx context.Context) (t []runtime.Finding, err error) {
	ctx, cancel := deadline.Within(ctx, deadline.Answer, "a guest that was started to try it")
	defer cancel()
	l, guest, err := r.newLink()
	if err != nil {
		return t, err
	}
	defer guest.Close()
	defer l.close()
	ids := idMaps{who: trialIdentity(), root: os.Geteuid() == 0}
	process, err := r.spawn(ids.who, guest)
	if err != nil {
		return t, err
	}
	defer func() {
		process.kill()
		<-process.done
	}()
	guest.Close()
	stop := context.AfterFunc(ctx, func() { l.control.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	if !process.helper {
		if _, err := ids.write(ctx, process.pid); err != nil {
			return t, err
		}
	}
	return exchange(l.control)
}

func exchange(channel *control.Conn) (t []runtime.Finding, err error) {
	b := boot{Trial: true, Name: "trial", Identity: trialIdentity(), DiskMax: 1 << 20, Inodes: 1 << 10}
	if err := channel.Send(control.Frame{Kind: control.Boot, Blob: b.encode()}); err != nil {
		return nil, err
	}
	frame, _, err := channel.Receive()
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

// checkIdmap tries an idmapped mount where the run-time folder is.
func (r *Runtime) checkIdmap() runtime.Finding {
	f := runtime.Finding{Name: "idmapped mounts", Required: true}
	err := tryIdmap(existing(r.config.Dir))
	f.OK = err == nil
	if err != nil {
		f.Detail, f.Fix = err.Error(), cmp.Or(forage.Hint(err), "root needs a file system that maps owners; ordinary users don't")
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
	mount, err := m.detached(fd, tree{Mount: forage.Mount{Source: dir}}, mount.Owner{})
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
