package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"forage"
	"forage/internal/deadline"
)

// Drop writes a new file into the workspace of a running sandbox, and returns where it is inside. It
// is written from inside: a link there leads to nothing that the agent could not write to. One that
// could not be written whole is removed.
func (s *Service) Drop(ctx context.Context, name, file string, content io.Reader) (at string, err error) {
	client, closed, err := s.reachFiles(ctx, name, "drop", file)
	if err != nil {
		return "", err
	}
	defer closed()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(deadline.End, func() { client.Close() }) })() // what is there is removed meanwhile
	files, err := client.SFTP(ctx)
	if err != nil {
		return "", err
	}
	defer files.Close()
	at = path.Join(forage.WorkspacePath, file)
	target, err := files.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL)
	if _, there := files.Lstat(at); err != nil && there == nil {
		return "", forage.WithHint(forage.Errorf(forage.ErrRefused, "%s is there already", at), "rename the file")
	}
	if errors.Is(err, fs.ErrPermission) {
		return "", forage.Errorf(forage.ErrRefused, "%s can't be written to", path.Dir(at))
	}
	if err == nil {
		_, err = io.Copy(target, content)
		if err = errors.Join(err, target.Close()); err != nil {
			err = errors.Join(err, files.Remove(at))
		}
	}
	if err != nil {
		return "", fmt.Errorf("writing %s: %w", at, err)
	}
	return at, nil
}
