// Package sandbox is what the commands call: it plans a sandbox from
// configuration and flags, keeps its record, and drives its supervisor through
// start, stop, reset and clean-up. It prints nothing and parses no flags.
package sandbox

import (
	"cmp"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"forage"
	"forage/internal/config"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
)

// Config is what a Service is made from.
type Config struct {
	ConfigFile string // --config; "" looks in the usual places
	Caller     Caller
	Notify     func(note string) // is told what the user should know before a sandbox starts; nil: no one
	Detail     func(string)      // is told what else is decided; nil: no one
	// Progress is told what begins that may take long, and returns what to call at its end; nil: no
	// one. One is under way at a time.
	Progress func(what string) (end func())
	// Unconfigured is told what is wrong with the configuration, where nothing is planned or
	// started: what runs can be seen and ended without it. nil: it is an error.
	Unconfigured func(error)
}

// Service plans, starts and removes the sandboxes of one user.
type Service struct {
	Config     *config.Config
	Store      *store.Store
	Places     supervisor.Places
	Runtimes   supervisor.Runtimes
	Workspaces supervisor.Workspaces
	Caller     Caller
	notify     func(string)
	progress   func(string) func()
	detail     func(string)
	read       []string // where the configuration is read from, whether or not it is there
	skills     string   // folder of the caller's own skills
}

// Caller is who asks, and from where.
type Caller struct {
	UID, GID int
	User     string // login name; the UID if the system knows none
	Home     string
	Dir      string // current folder; "" if it is gone
	Getenv   func(string) (string, bool)
}

// Me is the caller who runs this program.
func Me() (Caller, error) {
	c := Caller{UID: os.Getuid(), GID: os.Getgid(), Home: os.Getenv("HOME"), Getenv: os.LookupEnv}
	c.Dir, _ = os.Getwd() // who needs one that is gone is told so by Caller.abs
	c.User = cmp.Or(os.Getenv("USER"), strconv.Itoa(c.UID))
	if c.Home != "" {
		return c, nil
	}
	account, err := user.LookupId(strconv.Itoa(c.UID))
	if err != nil {
		return c, nil // a folder that is needed and can't be found says so itself
	}
	c.Home, c.User = account.HomeDir, account.Username
	return c, nil
}

// configHome is where the caller's programs keep their configuration (XDG Base Directory
// Specification).
func (c Caller) configHome() string {
	if dir, _ := c.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(c.Home, ".config")
}

// abs is path as seen from the caller's folder.
func (c Caller) abs(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if c.Dir == "" {
		return "", forage.Errorf(forage.ErrUsage, "the current folder is gone, or you can't enter it")
	}
	return filepath.Join(c.Dir, path), nil
}

// New reads the configuration and opens the caller's sandboxes. It makes nothing.
func New(c Config) (*Service, error) {
	getenv := func(name string) string { value, _ := c.Caller.Getenv(name); return value }
	env := config.Env{UID: c.Caller.UID, Home: c.Caller.Home, Getenv: getenv, File: c.ConfigFile}
	cfg, read, err := configuration(env)
	if err != nil && c.Unconfigured != nil {
		c.Unconfigured(err)
		cfg, err = &config.Config{}, nil
	}
	if err != nil {
		return nil, err
	}
	places, err := store.FindPlaces(store.Environment{UID: c.Caller.UID, Home: c.Caller.Home, Getenv: getenv})
	if err != nil {
		return nil, err
	}
	records, err := store.Open(places.State)
	if err != nil {
		return nil, err
	}
	skills, err := env.SkillsDir()
	if err != nil {
		return nil, err
	}
	notify := c.Notify
	if notify == nil {
		notify = func(string) {}
	}
	progress := c.Progress
	if progress == nil {
		progress = func(string) func() { return func() {} }
	}
	return &Service{
		notify: notify, progress: progress, detail: c.Detail, read: append(read, skills), skills: skills,
		Config: cfg, Store: records, Places: supervisor.Places{Places: places},
		Runtimes:   supervisor.Runtimes{Dir: places.Runtime},
		Workspaces: supervisor.Workspaces{Places: workspace.PlacesIn(places.State, places.Runtime)}, Caller: c.Caller,
	}, nil
}

// configuration is what is configured, and all files that say so, whether or not they are there.
func configuration(env config.Env) (*config.Config, []string, error) {
	cfg, err := config.Load(env)
	if err != nil {
		return nil, nil, err
	}
	read, err := env.Places()
	if err != nil {
		return nil, nil, err
	}
	if dir, err := env.OwnDir(); err == nil { // which is read another time, if --config names another file now
		read = append(read, filepath.Join(dir, "config.toml"), filepath.Join(dir, "config.json"))
	}
	return cfg, read, nil
}

// Options is what `up` and `run` were asked for, before configuration is merged in.
// Zero fields leave the decision to the project file, the template and the defaults, in that order.
type Options struct {
	Name         string // for run: may be empty, one is then made up
	Template     string
	Workspace    string // -w: path as given; with none of the next three, "" is the current folder
	GitWorktree  string // --git-worktree, --repo and --clone: path as given, or for --clone a URL
	Repo         string
	Clone        string
	Branch       string // what a worktree, jj workspace or clone starts from; "" is HEAD
	ReadOnly     bool
	SamePath     bool // show the workspace at its path on the host too
	Runtime      string
	Network      string   // "", "full", "restricted" or "none"
	Allow        []string // added to the template's
	Monitor      bool     // record what the network would deny, and let it through
	Mounts       []string // SRC:DST[:ro|rw], ro unless said
	Volumes      []string // NAME:DST[:ro|rw], or as Mounts where a path comes first
	Env          []string // K=V, or K to take the caller's value at each start
	SSHKeys      []string // files with public keys
	GitUser      string
	GitEmail     string
	IdentityMode string // "", "sandbox-user" or "host-user"
	Command      []string
	Ephemeral    bool          // run
	Keep         bool          // run: keep it as a stopped sandbox
	Timeout      time.Duration // run: 0 is none
}

// Stdio is where a command's streams go. TTY asks for a terminal inside; the
// caller's terminal is then put into raw mode and restored.
type Stdio struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	TTY bool
}

// Status is a sandbox as ps and status show it.
type Status struct {
	store.Record
	Status   string `json:"status"` // running, stopped, failed or creating
	Tmux     string `json:"tmux"`   // attached, detached or none
	GuestPID int    `json:"guestPid,omitempty"`
	// Agent is the command that it was made for, AgentState what that does while the sandbox runs:
	// working, waiting, running (it doesn't tell) or ended, with ExitCode, where that is known.
	// What is inside can forge both.
	Agent      string `json:"agent,omitempty"`
	AgentState string `json:"agentState,omitempty"`
	ExitCode   *int   `json:"exitCode,omitempty"`
	// Work is what has become of each part of the workspace. Service.Status alone asks for it.
	Work []Work `json:"work,omitempty"`
	// Unsaved is whether some of the work is nowhere else. Service.List alone asks for it; nil
	// where the workspace is the user's own.
	Unsaved *bool `json:"unsaved,omitempty"`
	// Branch is GitBranch where it exists. Service.List alone asks for it.
	Branch string `json:"-"`
	// Findings are what host tools would execute in the workspace (see Service.Findings), where
	// they were asked for; FindingCount is how many there are, -1 if that is not known.
	Findings     []Finding `json:"findings,omitempty"`
	FindingCount int       `json:"findingCount,omitempty"`
	// Refused is how many destinations it was refused since its start and may still not have;
	// Refusals are those.
	Refused  int       `json:"refused,omitempty"`
	Refusals []Refusal `json:"refusals,omitempty"`
}

// NetworkChange is what `network` was asked to change; zero fields change nothing.
type NetworkChange struct {
	Mode    forage.NetworkMode
	Allow   []string
	Remove  []string
	Monitor *bool
	// AllowLast allows what was refused last, as well.
	AllowLast bool
}

// Action is something that gc did, or would do.
type Action struct {
	Sandbox string `json:"sandbox"`
	What    string `json:"what"` // "removed the run-time folder", in a rehearsal "would have removed the run-time folder"
}
