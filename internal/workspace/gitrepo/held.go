package gitrepo

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
)

// heldPatience is how long a git may take in a folder before it is looked for what it waits for.
const heldPatience = 3 * time.Second

// readByGit are the files that git opens wherever it finds them: gitignore(5), gitattributes(5).
var readByGit = []string{".gitignore", ".gitattributes"}

var errHeld = errors.New("git would wait for it")

// unlessHeld is ctx for a git that works in a folder which somebody hostile writes to. It ends when git waits there for what
// never comes: a FIFO in the place of a file that git reads, be it that it was there before git or has come to be there since.
func unlessHeld(ctx context.Context, folder string) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		for pause := heldPatience; ; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			begun := time.Now()
			if name := heldBy(ctx, folder); name != "" {
				cancel(forage.WithHint(
					forage.Errorf(forage.ErrRefused, "%s is neither a file nor a folder: %w for ever", name, errHeld),
					"remove it, if need be with the sandbox stopped"))
			}
			pause = heldPatience + 10*time.Since(begun) // a big folder is looked through now and then
		}
	}()
	return ctx, func() { cancel(nil) }
}

// heldBy finds something that git reads and can't be read; "" is nothing. Names are looked at, and nothing is opened but folders.
func heldBy(ctx context.Context, folder string) (found string) {
	_ = filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return ctx.Err() // what can't be looked through isn't waited for
		}
		inGit := strings.Contains(path[len(folder):], "/.git/") // of a nested repository git reads HEAD, commondir and config
		if (inGit || slices.Contains(readByGit, entry.Name())) && entry.Type()&(fs.ModeNamedPipe|fs.ModeDevice) != 0 {
			found = path
			return fs.SkipAll
		}
		return nil
	})
	return found
}
