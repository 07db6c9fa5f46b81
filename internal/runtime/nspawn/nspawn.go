// Package nspawn has systemd-nspawn make the namespaces of root's sandboxes: an empty, read-only
// root, users of the sandbox's own, no network. The guest in it is our own program, which makes the
// sandbox's root itself, as with bwrap, and gives up all privilege.
package nspawn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/runtime"
	"forage/internal/runtime/child"
	"forage/internal/unixsock"
)

// Name is the runtime's name in plans and commands.
const Name = "nspawn"

// programPath is where the guest's program is in the container.
const programPath = "/forage/program"

// Runtime is systemd-nspawn(1) as a runtime.
type Runtime struct {
	*child.Runtime
	dir, self string
}

// New makes the runtime for a run-time folder. self is the program that is started as guest; "" is
// the running one.
func New(dir, self string) *Runtime { return &Runtime{with(&container{}, dir, self), dir, self} }

func with(c *container, dir, self string) *child.Runtime {
	return child.New(child.Config{
		Name: Name, Description: "systemd-nspawn's containers, for root", Namespaces: c, Dir: dir, Self: self,
		Place: func(string) string { return programPath }, // root's mounts are handed over
	})
}

// Detect says what a host lacks, after a quick look.
func Detect(env runtime.Environment) error {
	if env.UID != 0 {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "nspawn is for root"), "choose native, or call as root")
	}
	if _, err := env.LookPath("systemd-nspawn"); err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "systemd-nspawn: %w", err), "install the package systemd-container")
	}
	return nil
}

// Start makes the container's root, and starts the sandbox in it.
func (r *Runtime) Start(ctx context.Context, req runtime.Request) (runtime.Instance, error) {
	c, err := r.prepare(req.Dir)
	if err != nil {
		for _, f := range []*os.File{req.SSH, req.Log} {
			if f != nil {
				f.Close()
			}
		}
		return nil, err
	}
	instance, err := with(c, r.dir, r.self).Start(ctx, req)
	if err != nil {
		return nil, errors.Join(err, c.close())
	}
	return instance, nil
}

// Check starts a guest that does everything once and ends. Nothing of it is left.
func (r *Runtime) Check(ctx context.Context) []runtime.Finding {
	failed := func(err error) []runtime.Finding {
		return []runtime.Finding{{Name: "systemd-nspawn", Required: true, Detail: err.Error(), Fix: forage.Hint(err)}}
	}
	dir, err := os.MkdirTemp("", "forage-trial-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	c, err := r.prepare(dir)
	if err != nil {
		return failed(err)
	}
	findings := with(c, r.dir, r.self).Check(ctx)
	if err := c.close(); err != nil {
		return append(findings, failed(err)...)
	}
	return findings
}

// container is the one of a sandbox.
type container struct {
	dir     string // the sandbox's folder
	program string
	channel *net.UnixListener
}

func (c *container) root() string   { return filepath.Join(c.dir, "nspawn") }
func (c *container) socket() string { return filepath.Join(c.dir, "nspawn.sock") }

// prepare makes a root with nothing but places for mounts, and the socket that the guest comes to.
func (r *Runtime) prepare(dir string) (_ *container, err error) {
	if err := Detect(runtime.Environment{UID: os.Geteuid(), LookPath: hostexec.Find}); err != nil {
		return nil, err
	}
	c := &container{dir: dir}
	path := r.self
	if path == "" {
		path = "/proc/self/exe"
	}
	if c.program, err = filepath.EvalSymlinks(path); err != nil {
		return nil, fmt.Errorf("finding the running program: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	for _, folder := range []string{"dev", "etc", "forage", "proc", "run", "sys", "tmp", "usr"} {
		if err := os.MkdirAll(filepath.Join(c.root(), folder), 0o755); err != nil {
			return nil, err
		}
	}
	for _, file := range []string{"etc/os-release", programPath, child.ChannelPath} {
		if err := os.WriteFile(filepath.Join(c.root(), file), nil, 0o644); err != nil {
			return nil, err
		}
	}
	if c.channel, err = unixsock.Listen(c.socket()); err != nil {
		return nil, err
	}
	return c, os.Chmod(c.socket(), 0o666) // in a folder that only root gets to
}

// close removes what was made.
func (c *container) close() error {
	if c.channel != nil {
		c.channel.Close() // which may be closed already
	}
	return errors.Join(os.RemoveAll(c.socket()), os.RemoveAll(c.root()))
}

// Command is systemd-nspawn(1), in which the user 0 is nobody on the host, or the configured user's
// neighbour, and becomes the agent at once.
func (c *container) Command(_, _ string, who forage.Identity) (child.Command, error) {
	path, err := hostexec.Find("systemd-nspawn")
	if err != nil {
		return child.Command{}, err
	}
	shift := who.HostUID - who.UID
	if shift < 0 || shift != who.HostGID-who.GID {
		return child.Command{}, forage.Errorf(forage.ErrUnsupported, "nspawn can't map user %d and group %d to %d and %d", who.UID, who.GID, who.HostUID, who.HostGID)
	}
	ids := strconv.Itoa(shift) + ":" + strconv.Itoa(max(who.UID, who.GID)+1)
	return child.Command{
		Path: path, Helper: true, Hand: c.hand, Ended: c.close,
		Env: []string{"PATH=" + hostexec.Path(), "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=0"},
		Argv: []string{
			"systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--pipe", "--directory=" + c.root(), "--read-only",
			"--private-network", "--private-users=" + ids, "--private-users-ownership=off", "--no-new-privileges=yes",
			"--resolv-conf=off", "--timezone=off", "--link-journal=no",
			"--system-call-filter=landlock_create_ruleset landlock_add_rule landlock_restrict_self",
			"--bind-ro=" + escape(c.program) + ":" + programPath, "--bind=" + escape(c.socket()) + ":" + child.ChannelPath,
			"--setenv=" + child.IDsVariable + "=" + strconv.Itoa(who.UID) + ":" + strconv.Itoa(who.GID), "--setenv=" + child.SelfVariable + "=1",
			"--", programPath, child.ContainArgument,
		},
	}, nil
}

// escape writes a path as --bind takes it.
func escape(path string) string { return strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(path) }

// hand gives the first process that comes the guest's end of the channel.
func (c *container) hand(guest *os.File, ended <-chan struct{}) (pid int, err error) {
	conn, pid, err := child.HandChannel("systemd-nspawn", c.channel, guest, ended)
	if err != nil {
		return 0, err
	}
	return pid, conn.Close()
}
