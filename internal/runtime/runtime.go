// Package runtime is the seam between Forage and what isolates: one interface,
// which native namespaces, containers and machines implement, each in a folder
// of its own. A runtime only starts and stops a process tree with mounts and
// channels; it knows nothing of records, policy or SSH.
package runtime

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"time"

	"forage"
	"forage/internal/control"
	"forage/internal/netns"
)

// Runtime is one way to isolate a sandbox. Its methods may be called from
// several goroutines and, for the same sandbox, from several processes one
// after the other: what Start made is found again by name, not by memory.
type Runtime interface {
	// Info says what this runtime is and what it can enforce. It is constant.
	Info() Info
	// Check tries, by doing it, whether this host can run the runtime.
	Check(ctx context.Context) []Finding
	// Supports reports, with ErrUnsupported and a hint, the first thing that spec asks for and
	// that this runtime on this host can't enforce. It changes nothing.
	Supports(spec forage.Spec) error
	// Has says whether the root filesystem of spec, which may have to be unpacked before, has a
	// program at file, an absolute path.
	Has(spec forage.Spec, file string) bool
	// Start builds the sandbox and returns once its guest has taken over and
	// waits for control.Go. Everything it made is undone when it fails.
	Start(ctx context.Context, req Request) (Instance, error)
	// Destroy removes whatever a sandbox of that name left on this host. It
	// is idempotent: an absent sandbox succeeds.
	Destroy(ctx context.Context, name string) error
	// List names the sandboxes of this runtime that left something on this
	// host, running or not: only ours, so that gc works after a crash.
	List(ctx context.Context) ([]string, error)
}

// Preparer is a Runtime that can begin a guest before it knows what to build: Start is quicker then.
// The guest ends with ctx if Start did not take it.
type Preparer interface {
	Prepare(ctx context.Context, who forage.Identity)
}

// Environment is what detection looks at: this host, or a test's.
type Environment struct {
	UID      int
	LookPath func(file string) (string, error)
	ReadFile func(path string) ([]byte, error)
}

// Capabilities is what a runtime can enforce. The zero value can nothing. Rows has it in words.
type Capabilities struct {
	Rootfs           []forage.RootfsKind `json:"rootfs"`
	TransparentProxy bool                `json:"transparentProxy"` // all TCP is redirected, not only what heeds proxy variables
	DNS              bool                `json:"dns"`              // to whichever resolver it is sent
	Seccomp          bool                `json:"seccomp"`          // our filter, or a kernel between the agent and the host's
	UserMapping      bool                `json:"userMapping"`
	TasksMax         bool                `json:"tasksMax"`
	MemoryMax        bool                `json:"memoryMax"`
	CPUQuota         bool                `json:"cpuQuota"`
	DiskMax          bool                `json:"diskMax"`
	ProtectedPaths   bool                `json:"protectedPaths"` // forage.Spec.Protect
	SocketMasks      bool                `json:"socketMasks"`    // sockets and FIFOs of the host are closed in whatever is mounted
	Files            bool                `json:"files"`          // forage.Spec.Files
	Links            bool                `json:"links"`          // forage.Spec.Links
	LayeredMounts    bool                `json:"layeredMounts"`  // forage.Mount.Layered
	Volumes          bool                `json:"volumes"`
	LiveNetwork      bool                `json:"liveNetwork"` // hosts allowed and denied while it runs
	GPU              bool                `json:"gpu"`
	NestedNamespaces bool                `json:"nestedNamespaces"`
}

// Info describes a runtime.
type Info struct {
	Name         string       `json:"name"`
	Description  string       `json:"description"`
	Capabilities Capabilities `json:"capabilities"` // what it can enforce where the host lets it
}

// Finding is the result of trying one thing that a runtime relies on.
type Finding struct {
	Name     string `json:"name"`     // what was tried: "user namespaces"
	OK       bool   `json:"ok"`       // whether it works here
	Required bool   `json:"required"` // whether nothing starts without it
	Detail   string `json:"detail,omitempty"`
	Fix      string `json:"fix,omitempty"` // what the user can do, when not OK
}

// Request is everything that Start needs. The runtime owns the files from the
// call on and closes them.
type Request struct {
	Spec forage.Spec
	// Dir is this sandbox's own folder below the run-time folder (0700).
	// The runtime may keep what Destroy needs in Dir/runtime.json.
	Dir string
	// SSH is a listening unix socket, and SSHPath where it is: connections reach the guest's SSH
	// server.
	SSH     *os.File
	SSHPath string
	// Log is the write end of a pipe for the output of the agent's window; nil without a session.
	Log *os.File
	// Guest is the guest's own configuration (guest.Config), opaque to the runtime.
	Guest json.RawMessage
}

// Instance is a started sandbox, held by the process that started it. When
// that process ends, however it ends, the sandbox ends at once.
type Instance interface {
	// Egress are the sandbox's own listening sockets, to be served by the
	// egress engine. They are handed over once; the caller closes them.
	Egress() netns.Listeners
	// Control is the channel to the guest: control.Go and what follows.
	Control() *control.Conn
	// Dial connects to the guest's SSH server.
	Dial(ctx context.Context) (net.Conn, error)
	// PID is the host's process id of the guest (0 where it has none).
	PID() int
	// Stop asks the guest to end everything inside, waits up to grace and
	// then kills. It returns when nothing of the sandbox runs any more.
	Stop(ctx context.Context, grace time.Duration) error
	// Done is closed when the sandbox has ended; Err then says why (nil after Stop).
	Done() <-chan struct{}
	Err() error
}
