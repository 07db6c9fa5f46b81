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
	"forage/internal/frames"
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
	// Start builds the sandbox and returns once its guest has taken over and
	// waits for frames.Go. Everything it made is undone when it fails.
	Start(ctx context.Context, req Request) (Instance, error)
	// Destroy removes whatever a sandbox of that name left on this host. It
	// is idempotent: an absent sandbox succeeds.
	Destroy(ctx context.Context, name string) error
	// List names the sandboxes of this runtime that left something on this
	// host, running or not: only ours, so that gc works after a crash.
	List(ctx context.Context) ([]string, error)
}

// Capabilities is what a runtime can enforce. The zero value can nothing.
type Capabilities struct {
	Rootfs           []forage.RootfsKind `json:"rootfs"`
	TransparentProxy bool                `json:"transparentProxy"` // all TCP is redirected, not only what heeds proxy variables
	TasksMax         bool                `json:"tasksMax"`
	MemoryMax        bool                `json:"memoryMax"`
	CPUQuota         bool                `json:"cpuQuota"`
	DiskMax          bool                `json:"diskMax"`
	Seccomp          bool                `json:"seccomp"`
	NestedNamespaces bool                `json:"nestedNamespaces"`
	LayeredMounts    bool                `json:"layeredMounts"` // forage.Mount.Layered
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
	// The runtime may keep what Destroy needs in Dir/runtime.
	Dir string
	// SSH is the listening unix socket that the guest serves SSH on.
	SSH *os.File
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
	Egress() Listeners
	// Control is the channel to the guest: frames.Go and what follows.
	Control() *frames.Conn
	// PID is the host's process id of the guest (0 where it has none).
	PID() int
	// Stop asks the guest to end everything inside, waits up to grace and
	// then kills. It returns when nothing of the sandbox runs any more.
	Stop(ctx context.Context, grace time.Duration) error
	// Done is closed when the sandbox has ended; Err then says why (nil after Stop).
	Done() <-chan struct{}
	Err() error
}

// Listeners are the listening ends of a sandbox's only way out. Empty fields
// are allowed: without Transparent only the explicit proxy is there.
type Listeners struct {
	Transparent []net.Listener   // redirected TCP; the destination is SO_ORIGINAL_DST
	Proxy       []net.Listener   // explicit proxy (CONNECT and absolute-form)
	Forwarded   []net.Listener   // connections that begin with a PROXY v2 header naming the destination
	DNSStream   []net.Listener   // DNS over TCP
	DNSPacket   []net.PacketConn // DNS over UDP
}
