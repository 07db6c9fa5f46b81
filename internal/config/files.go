package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// maxFile bounds a configuration file, in bytes.
const maxFile = 1 << 20

// Env is what decides which files are read, injected so that it can be tested.
type Env struct {
	UID    int
	Home   string                   // the caller's home folder, for ~ and the default place
	Getenv func(name string) string // FORAGE_CONFIG and XDG_CONFIG_HOME; nil: not set
	// File is what --config says; it goes before FORAGE_CONFIG. Either is read
	// in the place of the caller's own file: for root that is the system's
	// file, for a user the one over the system's.
	File string
	// SystemDir is where the system's file is; "" is /etc/firefly-forage.
	SystemDir string
}

func (e Env) getenv(name string) string {
	if e.Getenv == nil {
		return ""
	}
	return e.Getenv(name)
}

func (e Env) systemDir() string {
	if e.SystemDir == "" {
		return "/etc/firefly-forage"
	}
	return e.SystemDir
}

// OwnDir is the folder of the caller's own configuration file: the system's for root.
func (e Env) OwnDir() (string, error) {
	if e.UID == 0 {
		return e.systemDir(), nil
	}
	// A relative path in an XDG variable is to be ignored, says the specification.
	if base := e.getenv("XDG_CONFIG_HOME"); filepath.IsAbs(base) {
		return filepath.Join(base, "firefly-forage"), nil
	}
	if !filepath.IsAbs(e.Home) {
		return "", forage.WithHint(
			errors.New("finding the configuration: no home folder is known"),
			"set HOME, XDG_CONFIG_HOME or FORAGE_CONFIG")
	}
	return filepath.Join(e.Home, ".config/firefly-forage"), nil
}

// SkillsDir is the folder of the caller's own skills: beside the file that is named, else in OwnDir.
func (e Env) SkillsDir() (string, error) {
	if named := e.named(); named != "" {
		named, err := filepath.Abs(named)
		return filepath.Join(filepath.Dir(named), "skills"), err
	}
	dir, err := e.OwnDir()
	return filepath.Join(dir, "skills"), err
}

// Places are all files that Load may read, whether or not they are there.
func (e Env) Places() ([]string, error) {
	folders := []string{e.systemDir()}
	named := e.named()
	if named == "" {
		own, err := e.OwnDir()
		if err != nil {
			return nil, err
		}
		folders = append(folders, own)
	} else if e.UID == 0 {
		folders = nil
	}
	var places []string
	for _, folder := range folders {
		places = append(places, filepath.Join(folder, "config.toml"), filepath.Join(folder, "config.json"))
	}
	if named == "" {
		return places, nil
	}
	named, err := filepath.Abs(named)
	return append(places, named), err
}

// file is a configuration file that is there.
type file struct {
	path string
	data []byte
}

// files reads what there is, in the order in which one goes over the other.
func (e Env) files() ([]file, error) {
	var found []file
	if e.UID != 0 {
		system, err := readPlace(e.systemDir())
		if err != nil {
			return nil, err
		}
		found = append(found, system...)
	}
	if named := e.named(); named != "" {
		path, err := filepath.Abs(named)
		if err != nil {
			return nil, unreadable(named, err)
		}
		data, err := readBounded(path, maxFile, 0)
		if err != nil {
			return nil, unreadable(path, err)
		}
		return append(found, file{path, data}), nil
	}
	dir, err := e.OwnDir()
	if err != nil {
		return nil, err
	}
	own, err := readPlace(dir)
	return append(found, own...), err
}

func (e Env) named() string {
	if e.File != "" {
		return e.File
	}
	return e.getenv("FORAGE_CONFIG")
}

// readPlace reads config.toml or config.json of a folder, if there is one;
// having both is an error, since one would be ignored.
func readPlace(dir string) ([]file, error) {
	var found []file
	for _, name := range []string{"config.toml", "config.json"} {
		path := filepath.Join(dir, name)
		data, err := readBounded(path, maxFile, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
			continue
		}
		if err != nil {
			return nil, unreadable(path, err)
		}
		found = append(found, file{path, data})
	}
	if len(found) == 2 {
		return nil, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "reading the configuration: there are both %s and %s", found[0].path, found[1].path),
			"keep one of them")
	}
	return found, nil
}

func unreadable(path string, err error) error {
	var located *fs.PathError
	if errors.As(err, &located) {
		err = located.Err
	}
	return forage.Errorf(forage.ErrUsage, "reading the configuration: %s: %w", path, err)
}

// readBounded reads a regular file that at most its owner's group can write
// to: what is in it may name commands to run.
func readBounded(path string, most int64, flags int) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|flags, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	case info.Mode().Perm()&0o002 != 0 && flags == 0:
		return nil, errors.New("everybody can write to it: chmod o-w it first")
	}
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("more than %d bytes", most)
	}
	return data, err
}
