package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
)

// temporary is the pattern of files that are about to become a record. No
// sandbox has a name that begins with a dot.
const temporary = ".tmp-*"

// WriteFile replaces path by data (mode 0600), whole or not at all. With durable, it also
// survives a power cut right after. Whatever fails, the old file stays.
func WriteFile(path string, data []byte, durable bool) error {
	dir := filepath.Dir(path)
	file, err := os.CreateTemp(dir, temporary) // 0600
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err == nil && durable {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(file.Name()))
	}
	if durable {
		d, err := os.Open(dir)
		if err != nil {
			return err
		}
		defer d.Close()
		return d.Sync()
	}
	return nil
}

// explain says what to do where the state folder may not be written to.
func explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return forage.WithHint(err, forage.HintWritableState)
	}
	return err
}

// Hint is forage.Hint, or what helps where a disk takes nothing.
func Hint(err error) string {
	hint := forage.Hint(err)
	switch {
	case hint != "":
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		hint = "free some space on that disk, for example with `forage-ctl gc`, and do it again"
	case errors.Is(err, unix.EROFS):
		hint = forage.HintWritableState
	}
	return hint
}
