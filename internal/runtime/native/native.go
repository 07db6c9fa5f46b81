// Package native isolates with the kernel's own means and nothing else: user,
// mount, process, network, IPC, UTS and cgroup namespaces, a root filesystem built through
// mount descriptors, capabilities, seccomp, Landlock and cgroups. It needs no
// root, no helper program and no daemon.
//
// Two processes share the work. Start, on the host, plans what is shown, clones
// the program itself into fresh namespaces and sends it a boot frame; Enter, in the
// clone, builds the sandbox around itself from the inside, gives up its privileges and
// returns to be the guest. If the first dies, the kernel kills the second, and
// with it everything inside; all that was built exists only in its namespaces
// and vanishes with them.
//
// What happens inside after Enter is the guest's business; where its traffic
// goes is egress's.
package native

import (
	"forage"
	"forage/internal/runtime"
)

// Name is the runtime's name in plans and commands.
const Name = "native"

// Argument is the one argument of a guest: a program that finds it has to call
// Enter at once.
const Argument = "guest"

// Config is what the runtime needs to know.
type Config struct {
	// Dir is the run-time folder, which holds one folder for each sandbox (Request.Dir).
	Dir string
	// Self is the program that is started as guest, with the arguments
	// argument Argument; it has to call Enter at once. Empty is the running program.
	Self string
}

// Runtime is the native runtime.
type Runtime struct {
	config Config
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes the runtime. It touches nothing.
func New(config Config) *Runtime { return &Runtime{config} }

// Info says what the runtime can enforce.
func (r *Runtime) Info() runtime.Info {
	return runtime.Info{
		Name:        Name,
		Description: "Linux namespaces, without root and without helpers",
		Capabilities: runtime.Capabilities{
			Rootfs:           []forage.RootfsKind{forage.RootfsHost, forage.RootfsDir, forage.RootfsOCI, forage.RootfsImage},
			TransparentProxy: true,
			TasksMax:         true,
			MemoryMax:        true,
			CPUQuota:         true,
			DiskMax:          true,
			Seccomp:          true,
			NestedNamespaces: true,
			LayeredMounts:    true,
		},
	}
}
