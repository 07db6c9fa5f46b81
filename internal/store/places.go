package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"forage"
)

// programDir is the name of Forage's folder in the system's and the users' places.
const programDir = "firefly-forage"

// Environment is what decides where things are kept, injected so that it can be tested.
type Environment struct {
	UID    int
	Home   string                   // the caller's home folder
	Getenv func(name string) string // nil: no variable is set
}

func (e Environment) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

// Places are the two folders in which Forage keeps things, absolute. Neither
// has to exist yet.
type Places struct {
	State   string // records, logs, keys: survives a reboot
	Runtime string // locks and sockets of what runs now
}

// FindPlaces says where state and run-time folders are: what FORAGE_STATE_DIR
// and FORAGE_RUNTIME_DIR say, else the system's places for root and those of the XDG
// Base Directory Specification for everybody else. While sandboxes of the state folder
// run, the run-time folder is theirs, whatever the variables say now. It makes nothing.
func FindPlaces(env Environment) (Places, error) {
	state, err := stateDir(env)
	if err != nil {
		return Places{}, err
	}
	runtime, err := runtimeDir(env)
	if err != nil {
		return Places{}, err
	}
	p := Places{State: state, Runtime: runtime}
	dir := p.inUse()
	if dir == "" || dir == p.Runtime {
		return p, nil
	}
	if env.getenv("FORAGE_RUNTIME_DIR") != "" {
		return Places{}, p.conflict(dir)
	}
	p.Runtime = dir
	return p, nil
}

func stateDir(env Environment) (string, error) {
	if dir := env.getenv("FORAGE_STATE_DIR"); dir != "" {
		return absolute("FORAGE_STATE_DIR", dir)
	}
	if env.UID == 0 {
		return filepath.Join("/var/lib", programDir), nil
	}
	// A relative path in an XDG variable is to be ignored, says the specification.
	if base := env.getenv("XDG_STATE_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, programDir), nil
	}
	if !filepath.IsAbs(env.Home) {
		return "", forage.WithHint(
			fmt.Errorf("finding the state folder: no home folder is known"),
			"set HOME, XDG_STATE_HOME or FORAGE_STATE_DIR")
	}
	return filepath.Join(env.Home, ".local/state", programDir), nil
}

func runtimeDir(env Environment) (string, error) {
	if dir := env.getenv("FORAGE_RUNTIME_DIR"); dir != "" {
		return absolute("FORAGE_RUNTIME_DIR", dir)
	}
	if env.UID == 0 {
		return filepath.Join("/run", programDir), nil
	}
	uid := strconv.Itoa(env.UID)
	// The login's folder is tried where the variable is missing too (cron, su), so that
	// every process of one user looks for a running sandbox in the same place. A
	// variable inherited from another user (su -p) names a folder of that user's.
	for _, base := range []string{env.getenv("XDG_RUNTIME_DIR"), filepath.Join("/run/user", uid)} {
		var st unix.Stat_t // it has to be the user's, and no other user may write to it
		if filepath.IsAbs(base) && unix.Stat(base, &st) == nil &&
			st.Mode&unix.S_IFMT == unix.S_IFDIR && int(st.Uid) == env.UID && st.Mode&0o022 == 0 {
			return filepath.Join(base, programDir), nil
		}
	}
	return filepath.Join("/tmp", programDir+"-"+uid), nil
}

func absolute(name, dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", forage.Errorf(forage.ErrUsage, "%s is %q: an absolute path is needed", name, dir)
	}
	return filepath.Clean(dir), nil
}

// makePrivate makes dir (0700) and its missing parents, and checks it.
func makePrivate(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !os.IsExist(err) {
		return err
	}
	return checkPrivate(dir)
}

// checkPrivate reports whether dir is a real folder, the caller's, and closed
// to everybody else. What others may only read is closed; what others could
// already have written to is refused.
func checkPrivate(dir string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		return forage.Errorf(forage.ErrRefused, "%s is not a folder (links are not followed)", dir)
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return forage.Errorf(forage.ErrRefused, "%s belongs to user %d, not to you (%d)", dir, st.Uid, os.Geteuid())
	case st.Mode&0o022 != 0:
		return forage.Errorf(forage.ErrRefused, "%s can be written to by others (mode %#o)", dir, st.Mode&0o777)
	case st.Mode&0o077 != 0:
		return unix.Fchmod(fd, st.Mode&0o700)
	}
	return nil
}
