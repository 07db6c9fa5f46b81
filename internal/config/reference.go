package config

import (
	_ "embed" // for the reference file and the schema
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
)

// reference is the commented example file with every key.
//
//go:embed reference.toml
var reference string

//go:embed schema.json
var schema string

// Schema is the JSON schema (2020-12) of the configuration file.
func Schema() string { return schema }

// Init writes the reference file to where the caller's own configuration is
// read from, and returns its path. A configuration that is there is ErrRefused.
func Init(env Env) (string, error) {
	path, err := env.initPath()
	if err != nil {
		return "", err
	}
	folder, file := fs.FileMode(0o700), fs.FileMode(0o600)
	if env.UID == 0 { // the system's, for everybody to read
		folder, file = 0o755, 0o644
	}
	if err := os.MkdirAll(filepath.Dir(path), folder); err != nil {
		return "", fmt.Errorf("writing the configuration: %w", err)
	}
	if err := writeNew(path, reference, file); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", inTheWay(path)
		}
		return "", fmt.Errorf("writing the configuration: %w", err)
	}
	return path, nil
}

// initPath is the file that Init makes.
func (e Env) initPath() (string, error) {
	if named := e.named(); named != "" {
		return filepath.Abs(named)
	}
	dir, err := e.OwnDir()
	if err != nil {
		return "", err
	}
	other := filepath.Join(dir, "config.json")
	if _, err := os.Lstat(other); err == nil {
		return "", inTheWay(other)
	}
	return filepath.Join(dir, "config.toml"), nil
}

func inTheWay(path string) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%s is there already, and was left as it is", path),
		"edit that file, then check it with `forage-ctl config check`; `forage-ctl config init --config example.toml` writes the commented example elsewhere")
}

// writeNew writes a file that must not exist, whole or not at all.
func writeNew(path, text string, mode fs.FileMode) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
