package boot

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
)

// shell is the one program that every root filesystem has.
const shell = "/bin/sh"

// LookPath finds the file that name stands for in a process with that
// environment and working directory. It fails with a StartError.
func LookPath(name string, env []string, dir string) (string, error) {
	if strings.Contains(name, "/") {
		path := name
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		if err := executable(path); err != nil {
			return "", startError(name, err)
		}
		return path, nil
	}
	var denied error
	for _, folder := range filepath.SplitList(Getenv(env, "PATH")) {
		if !filepath.IsAbs(folder) {
			folder = filepath.Join(dir, folder) // an empty element is the working directory
		}
		path := filepath.Join(folder, name)
		switch err := executable(path); {
		case err == nil:
			return path, nil
		case errors.Is(err, os.ErrPermission):
			denied = err
		}
	}
	if denied != nil && name != "" {
		return "", startError(name, denied)
	}
	return "", forage.WithHint(&StartError{127, fmt.Errorf("%s: not found inside the sandbox", name)},
		"install it where the system keeps programs, or in the image")
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return unix.EISDIR
	}
	return unix.Access(path, unix.X_OK)
}

func startError(name string, err error) error {
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return &StartError{127, fmt.Errorf("%s: not found inside the sandbox", name)}
	}
	var path *os.PathError
	if errors.As(err, &path) {
		err = path.Err
	}
	return &StartError{126, fmt.Errorf("%s: not executable inside the sandbox: %w", name, err)}
}

// Getenv is the value of a variable in an environment; the last one counts.
func Getenv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// Setenv returns env with the variables of set, each "K=V", put in or replaced. It
// doesn't change env.
func Setenv(env []string, set ...string) []string {
	result := append(make([]string, 0, len(env)+len(set)), env...)
next:
	for _, variable := range set {
		name, _, _ := strings.Cut(variable, "=")
		for i := range result {
			if strings.HasPrefix(result[i], name+"=") {
				result[i] = variable
				continue next
			}
		}
		result = append(result, variable)
	}
	return result
}
