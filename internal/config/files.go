package config

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostile"
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

// SkillsDir is the folder of the caller's own skills: beside the file that is named, else in
// OwnDir.
func (e Env) SkillsDir() (string, error) {
	if named := e.named(); named != "" {
		named, err := filepath.Abs(named)
		return filepath.Join(filepath.Dir(named), "skills"), err
	}
	dir, err := e.OwnDir()
	return filepath.Join(dir, "skills"), err
}

// Places are all files that Load may read, whether or not they are there. Later ones go over
// earlier ones; one that is named is the last.
func (e Env) Places() ([]string, error) {
	var folders []string
	if e.UID != 0 {
		folders = append(folders, e.systemDir())
	}
	named := e.named()
	if named == "" {
		own, err := e.OwnDir()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(folders, own) {
			folders = append(folders, own)
		}
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

// files reads what there is of the places. Having two files in a folder is an error, since one
// would be ignored.
func (e Env) files() ([]file, error) {
	places, err := e.Places()
	if err != nil {
		return nil, err
	}
	var found []file
	for i, path := range places {
		isNamed := e.named() != "" && i == len(places)-1
		data, err := readBounded(path, maxFile, 0)
		switch last := len(found) - 1; {
		case !isNamed && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)):
			continue
		case err != nil:
			return nil, unreadable(path, err)
		case !isNamed && last >= 0 && filepath.Dir(found[last].path) == filepath.Dir(path):
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "reading the configuration: there are both %s and %s", found[last].path, path),
				"keep one of them")
		}
		found = append(found, file{path, data})
	}
	return found, nil
}

func (e Env) named() string {
	if e.File != "" {
		return e.File
	}
	return e.getenv("FORAGE_CONFIG")
}

// readBounded reads a regular file that at most its owner's group can write
// to: what is in it may name commands to run.
func readBounded(path string, most int64, flags int) ([]byte, error) {
	data, info, err := hostile.ReadFile(path, flags, most)
	if err == nil && info.Mode().Perm()&0o002 != 0 && flags == 0 {
		err = errors.New("everybody can write to it: chmod o-w it first")
	}
	return data, err
}

func unreadable(path string, err error) error {
	return forage.Errorf(forage.ErrUsage, "reading the configuration: %s: %w", path, err)
}
