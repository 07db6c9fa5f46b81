package plan

import (
	"cmp"
	"errors"
	"forage"
	"forage/internal/config"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/workspace"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"
)

// Host is what planning looks at: the configuration, the sandboxes on record and the caller.
// Planning changes nothing of it.
type Host struct {
	Config     *config.Config
	Store      *store.Store
	Places     supervisor.Places
	Runtimes   supervisor.Runtimes
	Workspaces supervisor.Workspaces
	Caller     Caller
	read       []string // where the configuration is read from, whether or not it is there
	skills     string   // folder of the caller's own skills
}

// Open reads the configuration and opens the caller's sandboxes. It makes nothing. unconfigured, if
// set, is told what is wrong with the configuration, which is then empty.
func Open(caller Caller, file string, unconfigured func(error)) (*Host, error) {
	getenv := func(name string) string { value, _ := caller.Getenv(name); return value }
	env := config.Env{UID: caller.UID, Home: caller.Home, Getenv: getenv, File: file}
	cfg, read, err := configuration(env)
	if err != nil && unconfigured != nil {
		unconfigured(err)
		cfg, err = &config.Config{}, nil
	}
	if err != nil {
		return nil, err
	}
	places, err := store.FindPlaces(store.Environment{UID: caller.UID, Home: caller.Home, Getenv: getenv})
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
	return &Host{
		Config: cfg, Store: records, Caller: caller, read: append(read, skills), skills: skills,
		Places: supervisor.Places{Places: places}, Runtimes: supervisor.Runtimes{Dir: places.Runtime, Order: cfg.RuntimeOrder, Prefix: cfg.ContainerPrefix},
		Workspaces: supervisor.Workspaces{Places: workspace.PlacesIn(places.State, places.Runtime)},
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

// Abs is path as seen from the caller's folder.
func (c Caller) Abs(path string) (string, error) {
	if filepath.IsAbs(path) {
		return path, nil
	}
	if c.Dir == "" {
		return "", forage.Errorf(forage.ErrUsage, "the current folder is gone, or you can't enter it")
	}
	return filepath.Join(c.Dir, path), nil
}

// readable are the records that can be read; the error names the others.
func (h *Host) Readable() ([]store.Record, error) {
	records, broken, err := h.Store.List()
	errs := []error{err}
	for _, record := range broken {
		errs = append(errs, record)
	}
	return records, errors.Join(errs...)
}

// alive says whether a supervisor stands behind the sandbox.
func (h *Host) Alive(name string) bool { return supervisor.Alive(h.Places.Of(name).Dir) }

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
	SamePath     bool   // show the workspace at its path on the host too
	Image        string // a reference, image:REF, oci:PATH or dir:PATH; "" is the template's
	Devcontainer bool   // what the project's devcontainer.json says counts
	Build        bool   // make the image from the project's Dockerfile
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
	// Confirm asks the user a question; nil: there is no one to ask.
	Confirm func(question string) bool `json:"-"`
}
