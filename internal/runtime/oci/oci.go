// Package oci has an OCI runtime's command line (runc, crun, runsc) make the container of a
// sandbox. What the container shows is built before, by package child; this package says which
// program it is and writes the bundle's config.json.
//
// runc and crun isolate with the kernel's own namespaces, as native does. gVisor's runsc puts a
// kernel of its own between the agent and the host's.
package oci

import (
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/runtime/child"
)

// Name is the runtime's name in plans and commands. Name + ":" + PROGRAM names the program too.
const Name = "oci"

// programs are those that are looked for where none is named.
var programs = []string{"runc", "crun", "runsc"}

// New makes the runtime for a run-time folder. program is the OCI command line, a name or an
// absolute path; "" is the first that is found. self is the program that is started as guest; ""
// is the running one.
func New(dir, program, self string) *child.Runtime {
	c := container{program: program}
	c.path, c.err = find(hostexec.Find, program)
	return child.New(child.Config{
		Name: Name, Description: "a container made by runc, crun or runsc (gVisor)",
		Namespaces: child.Clone{Zero: true}, Container: c, Stream: c.ownKernel(), Dir: dir, Self: self,
	})
}

// Detect says what a host lacks, after a quick look.
func Detect(env runtime.Environment) error {
	if _, err := find(env.LookPath, ""); err != nil {
		return err
	}
	return child.Detect(env)
}

func find(look func(string) (string, error), program string) (string, error) {
	names := programs
	if program != "" {
		names = []string{program}
	}
	for _, name := range names {
		path, err := look(name)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil && rootfs.Within(path, child.StagePath) {
			return "", forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s is below %s, where the sandbox is built", path, child.StagePath), "put it elsewhere")
		}
		if err == nil {
			return path, nil
		}
	}
	return "", forage.WithHint(forage.Errorf(forage.ErrUnsupported, "no OCI command line: %s is not on the PATH", strings.Join(names, " or ")),
		"install the package runc or crun, or name another: --runtime oci:/path/to/runsc")
}

// container is an OCI command line of this host.
type container struct {
	program string // as it was named
	path    string
	err     error
}

// ownKernel says whether it is gVisor, across whose kernel no descriptor goes.
func (c container) ownKernel() bool { return strings.HasPrefix(filepath.Base(c.path), "runsc") }

// Without takes away what gVisor can't: its kernel counts no processes.
func (c container) Without(can *runtime.Capabilities) {
	if c.ownKernel() {
		can.TasksMax = false
	}
}

// id is the container's name, in the program's state, which no other container is in.
const id = "sandbox"

// Command runs the container, in the foreground.
func (c container) Command() ([]string, error) {
	if c.err != nil {
		return nil, c.err
	}
	if c.ownKernel() {
		return []string{c.path, "--root", child.StatePath, "--ignore-cgroups", "--network=none", "--net-raw",
			"--overlay2=none", "--directfs=false", "--rootless", "run", "--bundle", child.BundlePath, "--pass-fd", "3:3", id}, nil
	}
	return []string{c.path, "--root", child.StatePath, "run", "--bundle", child.BundlePath, "--preserve-fds", "1", id}, nil
}

// caps are what the guest starts with.
func (c container) caps() []string {
	more := "CAP_SYS_ADMIN"
	if c.ownKernel() {
		more = "CAP_NET_RAW"
	}
	return append(slices.Clone(child.ContainerCaps), more)
}
