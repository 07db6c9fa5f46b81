// Package forage holds the nouns of Firefly Forage: what a sandbox is made of
// and what may go wrong with one. It is data and its validation only: nothing
// here touches the system, and it imports the standard library alone.
package forage

import "time"

// maxName is how long a sandbox's name may be: as long as a DNS label.
const maxName = 63

// CheckName reports a usage error (ErrUsage) when name can't name a sandbox: a
// name is a DNS label in lower case, so that it can be a host name, a file
// name and an argument without quoting.
func CheckName(name string) error {
	ok := name != "" && len(name) <= maxName && name[0] != '-'
	for _, c := range []byte(name) {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if ok {
		return nil
	}
	return WithHint(
		Errorf(ErrUsage, "%q is not a sandbox name", name),
		"a name is 1 to 63 of a-z, 0-9 and '-', and does not start with '-'")
}

// Phase is where a sandbox is in its life, as its record says.
type Phase string

// The phases. A record in PhaseCreating or PhaseRemoving whose supervisor is gone is
// an interrupted operation, which gc finishes.
const (
	PhaseCreating Phase = "creating"
	PhaseRunning  Phase = "running"
	PhaseStopped  Phase = "stopped"
	PhaseFailed   Phase = "failed"
	PhaseRemoving Phase = "removing"
)

// Fixed places and names inside every sandbox.
const (
	WorkspacePath = "/workspace"
	HomePath      = "/home/agent"
	UserName      = "agent"
	RunPath       = "/run/forage" // ours: read-only to the agent unless said otherwise
	// RepositoriesPath holds private repository metadata, where it is not in the workspace itself.
	RepositoriesPath = "/run/repositories"
	SessionName      = "forage" // tmux session
	WindowName       = "agent"  // tmux window 0
	ProxyPort        = 18080    // explicit proxy, on 127.0.0.1 and ::1
	// BrowsersPath holds the programs that ask the user to open a page, first in PATH.
	BrowsersPath = RunPath + "/browsers"
	DNSPort      = 53
)

// BoardPort is the port of the host's loopback on which the board listens if nothing else is said. No
// sandbox gets it.
const BoardPort = 8022

// Browsers are those programs: names by which others look for one.
func Browsers() []string {
	return []string{"xdg-open", "open", "sensible-browser", "www-browser", "x-www-browser"}
}

// Plan is everything that was decided about one sandbox before anything is
// done. It is pure data: printable, comparable, and frozen into the sandbox's
// record, so that start and reset build the same sandbox again.
type Plan struct {
	Name      string    `json:"name"`
	Template  string    `json:"template"`
	Runtime   string    `json:"runtime"`
	Ephemeral bool      `json:"ephemeral,omitempty"` // made by run: nothing is kept
	Workspace Workspace `json:"workspace"`
	// Parts are the other parts of a composed workspace, by name.
	Parts   []Workspace  `json:"parts,omitempty"`
	Spec    Spec         `json:"spec"`
	Network Network      `json:"network"`
	Facts   NetworkFacts `json:"networkFacts"`
	Traffic Traffic      `json:"traffic,omitzero"`
	// Secrets are put into requests on the host, or with SecretsWrapped into files inside.
	Secrets    []Binding  `json:"secrets,omitempty"`
	SecretMode SecretMode `json:"secretMode,omitempty"`
	// Skills are what the agent is told of the sandbox, when it starts.
	Skills Instructions `json:"skills,omitzero"`
	// AuthorizedKeys are OpenSSH public keys (authorized_keys lines) that may
	// log in, beside the state folder's own key.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// Terminal is what programs inside may do to a terminal beside writing on its screen:
	// "clipboard", "title".
	Terminal []string `json:"terminal,omitempty"`
	// ForwardAuto forwards each port that a server inside listens on to the host's loopback.
	ForwardAuto bool `json:"forwardAuto,omitempty"`
	// SSHForward is what clients of the gateway may have forwarded from inside to them:
	// ForwardPorts, ForwardAgent.
	SSHForward []string `json:"sshForward,omitempty"`
}

// ViaVariable tells the commands of the gateway's screen whose key it is, for the audit log. Neither
// supervisors nor sandboxes are handed it.
const ViaVariable = "FORAGE_VIA"

// What Plan.SSHForward may name.
const (
	ForwardPorts = "ports" // connections to ports inside (ssh -R)
	ForwardAgent = "agent" // the client's SSH agent (ssh -A)
)

// Spec is what a runtime is asked to build and hold: plain data, printed by
// `run --print-effective-config`. What it says is what is enforced; a runtime
// that can't enforce a field refuses it with ErrUnsupported.
type Spec struct {
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`
	Rootfs   Rootfs   `json:"rootfs"`
	Mounts   []Mount  `json:"mounts"`
	Links    []Link   `json:"links,omitempty"`
	Files    []File   `json:"files,omitempty"`
	// Env is the environment inside, without HostEnv's values.
	Env map[string]string `json:"env"`
	// HostEnv names variables whose values are read from the caller's
	// environment when the sandbox starts; they are never stored.
	HostEnv []string `json:"hostEnv,omitempty"`
	Dir     string   `json:"dir"` // working directory of commands inside
	// KeptHome is the folder on the host that the home is in, writable, so that it outlives
	// the sandbox's end; "" is a home in the ephemeral root. All of it was written inside.
	KeptHome string      `json:"keptHome,omitempty"`
	Limits   Limits      `json:"limits"`
	Security Security    `json:"security"`
	Network  NetworkMode `json:"network"`
	// Protect are paths inside, below a writable mount: those that are there when the
	// sandbox starts are read-only and stay in their place. A runtime makes none of them.
	Protect []string `json:"protect,omitempty"`
	// Init are shell command lines that run, in order, before the agent; the
	// first that fails fails the start.
	Init []string `json:"init,omitempty"`
	// Command is the agent (Session) or the one command of run: argv, looked
	// up on the PATH inside.
	Command []string `json:"command"`
	// Along are the command's agent and what interprets it, of the caller's: each is shown where an
	// image has none of that name.
	Along []HostProgram `json:"along,omitempty"`
	// Session asks for Command in a tmux session that outlives its terminals.
	Session bool `json:"session,omitempty"`
}

// Identity is who the agent is inside.
type Identity struct {
	User string `json:"user"` // login name inside
	UID  int    `json:"uid"`  // inside, never 0
	GID  int    `json:"gid"`  // inside, never 0
	Home string `json:"home"`
	// HostUID and HostGID are what UID and GID are on the host. They differ
	// from UID and GID only when root called: workspace files then keep their
	// owner through an idmapped mount.
	HostUID int `json:"hostUid"`
	HostGID int `json:"hostGid"`
}

// RootfsKind says where the root filesystem comes from.
type RootfsKind string

// The kinds of root filesystem.
const (
	RootfsHost  RootfsKind = "host"  // filtered, read-only view of the host's system folders
	RootfsDir   RootfsKind = "dir"   // a folder, under an overlay
	RootfsOCI   RootfsKind = "oci"   // an OCI layout or docker-archive, unpacked, under an overlay
	RootfsImage RootfsKind = "image" // pulled from a registry, unpacked, under an overlay
)

// Rootfs is the root filesystem of a sandbox.
type Rootfs struct {
	Kind RootfsKind `json:"kind"`
	Ref  string     `json:"ref,omitempty"` // path or image reference; empty for RootfsHost
	// Lower are the unpacked folders to overlay, uppermost first; filled when
	// the sandbox starts, empty for RootfsHost.
	Lower []string `json:"lower,omitempty"`
}

// HostProgram is a program of the caller's, as it is shown in an image that lacks it.
type HostProgram struct {
	Name   string  `json:"name"` // of the command
	Mounts []Mount `json:"mounts"`
	Links  []Link  `json:"links,omitempty"`
	Dir    string  `json:"dir"` // to look for the command in
	// Needs are files, and Libraries names of shared libraries, that it runs with and that the image
	// has to have.
	Needs     []string `json:"needs,omitempty"`
	Libraries []string `json:"libraries,omitempty"`
}

// Mount shows one host file or folder inside. Its zero value for Writable is
// the safe one.
type Mount struct {
	// Source on the host: absolute, with links already resolved. The runtime
	// opens it without following any link, so a link swapped in later fails.
	Source   string `json:"source"`
	Target   string `json:"target"` // inside: absolute and clean
	Writable bool   `json:"writable,omitempty"`
	// Optional: a missing source is left out instead of failing the start.
	Optional bool `json:"optional,omitempty"`
	// Volume: a named volume, which is a folder of Forage's own: no tool of the host works in it.
	Volume bool `json:"volume,omitempty"`
	// System: a part of the host's system or of a tool on it, which nothing inside has
	// ever been able to write to. It is always read-only, keeps its owners,
	// and is not looked through for sockets and FIFOs file by file.
	System bool `json:"system,omitempty"`
	// Layered: a folder that is shown under a layer of the sandbox's own, in memory, which takes
	// all that is written. The source is only read, and is not looked through either: what an
	// overlay shows of a socket or FIFO leads nowhere.
	Layered bool `json:"layered,omitempty"`
}

// Link is a symbolic link inside.
type Link struct {
	Path   string `json:"path"`   // absolute and clean
	Target string `json:"target"` // as written: absolute, or relative to Path's folder
}

// File is a small file that Forage itself puts inside, readable by the agent
// and, unless it is Owned, not writable.
type File struct {
	Path    string `json:"path"` // inside: absolute and clean
	Content []byte `json:"content"`
	Mode    uint32 `json:"mode"` // permission bits; 0 means 0444
	// Owned files belong to the agent, who may change or remove them, as do the folders
	// made for them. They are below the home. In a kept home, what is there already stays.
	Owned bool `json:"owned,omitempty"`
	// Renew replaces an Owned file that a kept home has already: it stands for something
	// on the host that changes.
	Renew bool `json:"renew,omitempty"`
}

// Limits bound what a sandbox uses. Zero means no limit was asked for. A
// runtime or host that can't enforce one that was asked for refuses to start.
type Limits struct {
	TasksMax  int64         `json:"tasksMax,omitempty"`  // processes and threads of the agent's tree
	MemoryMax int64         `json:"memoryMax,omitempty"` // bytes
	CPUQuota  int64         `json:"cpuQuota,omitempty"`  // percent of one processor: 200 is two processors
	DiskMax   int64         `json:"diskMax,omitempty"`   // bytes of the ephemeral root (all that is writable, not mounted and not a kept home)
	WallClock time.Duration `json:"wallClock,omitempty"` // from start to forced stop, nanoseconds
}

// Security loosens what is closed by default. The zero value is the tightest.
type Security struct {
	// NestedNamespaces lets the agent make user namespaces of its own (for
	// browsers' sandboxes, podman inside and the like).
	NestedNamespaces bool `json:"nestedNamespaces,omitempty"`
}

// Template describes a kind of sandbox.
type Template struct {
	Name              string     `json:"name"`
	Description       string     `json:"description,omitempty"`
	ExtraPackages     []string   `json:"extraPackages,omitempty"`
	Runtime           string     `json:"runtime,omitempty"` // empty: the best that this host can run
	Rootfs            Rootfs     `json:"rootfs"`
	Network           Network    `json:"network"`
	Traffic           Traffic    `json:"traffic,omitzero"`
	Secrets           []string   `json:"secrets,omitempty"` // names, beside those of the agents
	SecretMode        SecretMode `json:"secretMode,omitempty"`
	ReadOnlyWorkspace bool       `json:"readOnlyWorkspace,omitempty"`
	// Unprotected lets the agent write to what the host's tools execute at the root of the
	// workspace (protect = false).
	Unprotected bool `json:"unprotected,omitempty"`
	// Caches are the host's caches of packages that are readable inside, by name (CacheNames).
	Caches []string `json:"caches,omitempty"`
	// SamePath shows the workspace at its host path too.
	SamePath bool `json:"samePath,omitempty"`
	// Parts are the parts of a composed workspace, by name; the one at WorkspacePath takes the
	// place of the caller's choice.
	Parts []Part `json:"workspaceMounts,omitempty"`
	// Volumes are named volumes, with the places inside that they are shown at.
	Volumes map[string]string `json:"volumes,omitempty"`
	// EphemeralHome lets the home vanish when the sandbox stops (home = "ephemeral").
	EphemeralHome bool              `json:"ephemeralHome,omitempty"`
	Limits        Limits            `json:"resourceLimits"`
	Security      Security          `json:"security"`
	Init          []string          `json:"initCommands,omitempty"`
	Skills        Skills            `json:"skills,omitzero"`
	Env           map[string]string `json:"env,omitempty"`
	Agents        map[string]Agent  `json:"agents,omitempty"`
	// ClaudeSettings are settings of Claude Code's, as its settings file has them.
	ClaudeSettings map[string]any `json:"claudeSettings,omitempty"`
	Terminal       []string       `json:"terminal,omitempty"`    // see Plan
	ForwardAuto    bool           `json:"forwardAuto,omitempty"` // see Plan
	SSHForward     []string       `json:"sshForward,omitempty"`  // see Plan
}

// Skills are what a template adds to what its agents are told.
type Skills struct {
	// How to work with jj; without it, where the workspace is a jj repository.
	JJ bool `json:"jj,omitempty"`
	// How to work with Nix; without it, where the project has a flake and the sandbox has nix.
	Nix bool `json:"nix,omitempty"`
	// Text of your own.
	Custom string `json:"custom,omitempty"`
}

// Instructions say where the agent finds what it is told of the sandbox, and what that has beside
// the sandbox's own facts. Without Files it is told nothing.
type Instructions struct {
	Skills
	Files []string `json:"files,omitempty"` // inside: absolute and clean
	Own   string   `json:"own,omitempty"`   // folder on the host with the user's own skills, *.md; it need not be there
}

// CacheNames are the caches of packages that a template can name: all of them, where it says
// nothing.
func CacheNames() []string { return []string{"go", "cargo", "npm", "pip", "uv", "maven", "gradle"} }

// Agent is an AI coding tool as a template knows it.
type Agent struct {
	Command    []string `json:"command"`
	AuthEnvVar string   `json:"authEnvVar,omitempty"` // variable its API key is expected in
	// Secret is the name of the secret that it authenticates with; "" is none.
	Secret string `json:"secret,omitempty"`
	// BaseURLEnvVar is the variable that it takes its API's address from; where it
	// is set, the agent is sent to the gateway, and its TLS needs no looking into.
	BaseURLEnvVar string `json:"baseUrlEnvVar,omitempty"`
	// Permissions say what it may do without asking; nil leaves that to the agent.
	Permissions *Permissions `json:"permissions,omitempty"`
	// HostConfigDir is its settings folder on the host, of which instructions and the like come in;
	// "" is none.
	HostConfigDir string `json:"hostConfigDir,omitempty"`
	// ContainerConfigDir is where they are inside; "" is the agent's own place.
	ContainerConfigDir string `json:"containerConfigDir,omitempty"`
	// ConfigReadOnly keeps what came in from being changed inside.
	ConfigReadOnly bool `json:"hostConfigDirReadOnly,omitempty"`
	// Hooks come in too. They run inside, unasked.
	Hooks bool `json:"hooks,omitempty"`
}

// Permissions are what an agent may do without asking, in its own format. The sandbox is the wall
// in any case.
type Permissions struct {
	SkipAll bool     `json:"skipAll,omitempty"` // asks for nothing
	Allow   []string `json:"allow,omitempty"`
	Deny    []string `json:"deny,omitempty"` // holds with SkipAll too
}

// Notify says how the user learns that an agent waits or has ended, or that a sandbox has failed.
// The zero value says nothing.
type Notify struct {
	Desktop bool     `json:"desktop,omitempty"` // over the user's session bus
	Bell    bool     `json:"bell,omitempty"`    // of the terminals that show the agent
	Command []string `json:"command,omitempty"` // run on the host
}
