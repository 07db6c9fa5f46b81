// Package child is what runtimes of one kernel share. Such a runtime only says how the
// first process comes into its namespaces (Namespaces); everything else is the same:
// spawning and ending it, its identity, the boot frame, the root filesystem, the network,
// hardening, limits, and the state that Destroy needs.
//
// Two processes share the work. Start, on the host, plans what is shown, starts the program
// itself in fresh namespaces and sends it a boot frame. Enter, inside, builds the sandbox
// around itself, gives up its privileges and returns to be the guest. If the first dies,
// the kernel kills the second, and with it everything inside. All that was built exists only
// in its namespaces and vanishes with them.
//
// What happens inside after Enter is the guest's business; where its traffic goes is egress's.
package child

import (
	"os"
	"syscall"

	"forage"
	"forage/internal/runtime"
)

// Argument is the one argument of a guest: a program that finds it has to call
// Enter at once.
const Argument = "guest"

// StreamArgument is Argument where nothing but bytes crosses (Config.Stream).
const StreamArgument = "guest-stream"

// StageArgument is the one argument of a process that builds a sandbox for Config.Container: it has
// to call Stage at once. What that starts has ContainerArgument or ContainerStreamArgument, and has
// to call Enter.
const (
	StageArgument           = "guest-stage"
	ContainerArgument       = "guest-container"
	ContainerStreamArgument = "guest-container-stream"
)

// Container has another program make the container that the guest is the first process of.
type Container interface {
	// Command is the program and its arguments. It fails with ErrUnsupported where there is none.
	Command() (argv []string, err error)
	// Bundle is the config.json of an OCI bundle in BundlePath, with the root filesystem in RootPath
	// as it is to be shown. The guest in it is Program with that argument, starts as user 0 with
	// ContainerCaps, and has its channel as descriptor 3.
	Bundle(spec forage.Spec, argument string) ([]byte, error)
	// Without takes away what sandboxes of it can't enforce.
	Without(c *runtime.Capabilities)
}

// The places of a bundle, where a Container finds it: nobody else does. What the host has at
// StagePath is hidden from it.
const (
	StagePath  = "/tmp"
	RootPath   = StagePath + "/" + dirRoot
	BundlePath = StagePath + "/" + dirBundle
	StatePath  = StagePath + "/" + dirState // for its own files
)

// Namespaces is how the first process of a sandbox is started.
type Namespaces interface {
	// Command starts program, with one argument, in fresh namespaces of every kind but time, as the
	// user who, and with every capability there. A Helper executes ProgramPath in place of program.
	// It fails with ErrUnsupported where this host or this caller can't have them.
	Command(program, argument string, who forage.Identity) (Command, error)
}

// Command is a program to be started, and how. It gets the control channel as descriptor 3.
type Command struct {
	Path string
	Argv []string
	Attr syscall.SysProcAttr
	// Helper: the program is not the guest, but its parent. It gives the guest its ids, stays until
	// the guest has ended, ends it when it is ended itself, and writes {"child-pid":N} to InfoFD.
	Helper bool
	// Client: the program is the client of a container engine, whose container has Contain as its
	// first process. That starts the guest and gives it its ids. The client ends with the container.
	Client bool
	Env    []string // the program's, where it is not the guest
	Dir    string   // where a client runs
	// Hand gives the guest's end of the channel to Contain, if that comes before ended is closed, and
	// returns Contain's process id. Without it the channel is the client's standard input and output.
	// A Helper with Hand executes Contain, and writes nothing.
	Hand func(guest *os.File, ended <-chan struct{}) (pid int, err error)
	// Ended, if set, removes what was made for the program when it has ended.
	Ended func() error
}

// ProgramPath is where a helper finds the guest's program: descriptor 5. A path would tell the
// agent about the host.
const ProgramPath = "/proc/self/fd/5"

// Config is what tells runtimes of one kernel apart.
type Config struct {
	Name, Description string
	Namespaces        Namespaces
	// Dir is the run-time folder, which holds one folder for each sandbox (Request.Dir).
	Dir string
	// Stream: no descriptor crosses after the guest has been started. One stream carries the
	// control channel, clients of SSH, the log and every connection that the guest forwards. Root's
	// mounts are descriptors, so it is for ordinary users.
	Stream bool
	// Container makes the guest's container of what is built. Nil: the guest is in what it builds.
	Container Container
	// Place says where in the container something of the host can be opened; nil is at its own path.
	Place func(source string) string
	// Self is the program that is started as guest; it has to call Enter at once. Empty is the
	// running program.
	Self string
}

// Runtime is a runtime of this kernel.
type Runtime struct {
	config Config
	early  *Early // for the next Start
}

var _ runtime.Runtime = (*Runtime)(nil)

// New makes the runtime. It touches nothing.
func New(config Config) *Runtime { return &Runtime{config: config} }

// Info says what the runtime can enforce.
func (r *Runtime) Info() runtime.Info {
	info := runtime.Info{
		Name:        r.config.Name,
		Description: r.config.Description,
		Capabilities: runtime.Capabilities{
			Rootfs:           []forage.RootfsKind{forage.RootfsHost, forage.RootfsDir, forage.RootfsOCI, forage.RootfsImage},
			TransparentProxy: true,
			DNS:              true,
			UserMapping:      true,
			Volumes:          true,
			LiveNetwork:      true,
			TasksMax:         true,
			MemoryMax:        true,
			CPUQuota:         true,
			DiskMax:          true,
			Seccomp:          true,
			NestedNamespaces: true,
			Files:            true,
			Links:            true,
			LayeredMounts:    true,
			ProtectedPaths:   true,
			SocketMasks:      true,
		},
	}
	if r.config.Container != nil {
		info.Capabilities.NestedNamespaces = false // its /proc is not whole
		r.config.Container.Without(&info.Capabilities)
	}
	return info
}
