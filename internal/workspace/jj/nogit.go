package jj

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"forage"
)

// noGit makes a .git in the working folder that leads nowhere. In a folder without one git takes the files HEAD, objects, refs and
// config for a bare repository, and executes what that config says: an agent that makes them at the root of its workspace
// would run commands in the prompt of whoever goes there. jj doesn't look at it.
func noGit(w forage.Workspace) error {
	file, err := os.OpenFile(filepath.Join(w.Path, ".git"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = file.WriteString("gitdir: " + filepath.Join(w.Repository.Dir, "there-is-no-git-repository-here") + "\n")
	return errors.Join(err, file.Close())
}
