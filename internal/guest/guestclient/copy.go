package guestclient

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/pkg/sftp"
	"golang.org/x/sys/unix"

	"forage"
)

// Bounds on what a guest may make a copy of its files cost.
const (
	maxEntries = 1 << 20   // files, folders and links of one copy
	maxDepth   = 200       // folders in folders
	maxListing = 256 << 20 // bytes of one folder's list
	maxGrowth  = 1 << 20   // bytes that a file may have beyond its size: those of /proc say 0
	copyBuffer = 1 << 20
)

// Copied is what a copy did.
type Copied struct {
	Files   int
	Bytes   int64
	Skipped []string // what was left out, each with the reason; the first few of SkippedCount
	// SkippedCount may be more than there are in Skipped.
	SkippedCount int
	Made         string // what was written, on the side that it was written to
}

// maxSkipped is how many of what was left out are named.
const maxSkipped = 10

// Copier copies files between the host and a sandbox, as cp -R does: links are copied as links, and
// none is followed out of the folder that is copied.
type Copier struct {
	ctx   context.Context
	files *sftp.Client
	list  *atomic.Int64 // bytes that the guest may still send; see metered
	// Told, if set, is called with the bytes copied so far.
	Told func(int64)
	// Folder, if set, is called with the folder of the host that is about to be written to.
	Folder func(string)
	// Resolve finds where a path of the host leads, or refuses it: an agent may have made a link on
	// the way.
	Resolve func(path string) (string, error)
	done    Copied
}

// Copier opens the sandbox's files to copy them. When ctx ends, so does the connection.
func (c *Client) Copier(ctx context.Context) (copier *Copier, closed func(), err error) {
	copier = &Copier{ctx: ctx, list: new(atomic.Int64), Resolve: filepath.EvalSymlinks}
	if copier.files, err = c.files(ctx, copier.list, sftp.UseConcurrentWrites(true)); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { c.conn.Close() })
	return copier, func() { stop(); copier.files.Close() }, nil
}

// metered ends a connection when it has brought more than may come while a folder is listed: its
// list is held in memory.
type metered struct {
	io.Reader
	left *atomic.Int64 // 0: it is not counted
}

func (m metered) Read(p []byte) (int, error) {
	n, err := m.Reader.Read(p)
	if m.left.Load() > 0 && m.left.Add(-int64(n)) <= 0 {
		return n, errors.New("a folder inside lists too much")
	}
	return n, err
}

// place is where something is to be copied to.
type place struct {
	path     string
	isFolder bool
	exists   bool
}

// within says what the copy of name is called, by the rules of docker cp and cp(1): a folder takes
// it under its own name, or with contents what is in it.
func (p place) within(name string, folder, contents bool, join func(...string) string) (string, error) {
	slash := strings.HasSuffix(p.path, "/")
	switch {
	case p.isFolder && folder && contents:
		return p.path, nil
	case p.isFolder:
		return join(p.path, name), nil
	case p.exists && folder:
		return "", fmt.Errorf("%s is a file, and can't become a folder", p.path)
	case slash && (p.exists || !folder):
		return "", fmt.Errorf("there is no folder %s", p.path)
	}
	return join(p.path), nil
}

// contentsOnly says whether from names what is in a folder, and not the folder.
func contentsOnly(from string) bool {
	base := from[strings.LastIndex(from, "/")+1:]
	return from == "" || base == "." || base == ".." || path.Clean(from) == "/"
}

// Upload copies the host's from to the path to inside.
func (c *Copier) Upload(from, to string) (Copied, error) {
	clean := filepath.Clean(from) // with a slash at its end a link would be followed
	info, err := os.Lstat(clean)
	if err != nil {
		return c.done, err
	}
	if info.Mode().Type() == fs.ModeSymlink { // an agent may have made it: the user says where it leads
		to, _ := os.Readlink(clean)
		return c.done, forage.WithHint(fmt.Errorf("%s is a link to %s", from, to), "name what it leads to")
	}
	if !info.IsDir() && !info.Mode().IsRegular() {
		return c.done, fmt.Errorf("%s is neither a file nor a folder", from)
	}
	at := place{path: path.Clean(to)}
	if strings.HasSuffix(to, "/") && at.path != "/" {
		at.path += "/"
	}
	there, err := c.files.Stat(at.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.done, inside(at.path, err)
	}
	at.exists, at.isFolder = err == nil, err == nil && there.IsDir()
	to, err = at.within(filepath.Base(from), info.IsDir(), contentsOnly(from), path.Join)
	if err != nil {
		return c.done, err
	}
	c.done.Made = to
	dir, name := from, "."
	if !info.IsDir() {
		dir, name = filepath.Split(from)
	}
	root, err := c.openRoot(filepath.Clean(dir), false)
	if err != nil {
		return c.done, err
	}
	defer root.Close()
	return c.done, fs.WalkDir(root.FS(), name, func(rel string, entry fs.DirEntry, err error) error {
		if err = errors.Join(err, c.next(rel)); err != nil {
			return err
		}
		target := path.Join(to, rel)
		if !info.IsDir() {
			target = to
		}
		return c.send(root, rel, target, entry.Type())
	})
}

// send copies one thing that is rel in root to the path to inside.
func (c *Copier) send(root *os.Root, rel, to string, kind fs.FileMode) error {
	switch kind {
	case fs.ModeDir:
		info, err := root.Lstat(rel)
		if err != nil {
			return err
		}
		if there, err := c.files.Stat(to); err == nil && there.IsDir() {
			return nil
		}
		return inside(to, errors.Join(c.files.Mkdir(to), c.files.Chmod(to, info.Mode().Perm()|0o700)))
	case fs.ModeSymlink:
		target, err := root.Readlink(rel)
		if err != nil {
			return err
		}
		if there, err := c.files.Lstat(to); err == nil && !there.IsDir() {
			c.files.Remove(to) // or the next says what is wrong
		}
		return inside(to, c.files.Symlink(target, to))
	case 0:
		return c.sendFile(root, rel, to)
	}
	c.skip(rel, "neither a file, a folder nor a link")
	return nil
}

func (c *Copier) sendFile(root *os.Root, rel, to string) error {
	source, err := root.OpenFile(rel, os.O_RDONLY|unix.O_NONBLOCK, 0) // it may be a pipe by now
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		c.skip(rel, "not a file any more")
		return nil
	}
	target, err := c.files.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return inside(to, err)
	}
	_, err = target.ReadFromWithConcurrency(c.counted(source), int(min(info.Size()>>15, 64))+1)
	return inside(to, errors.Join(err, target.Chmod(info.Mode().Perm()), target.Close()))
}

// Download copies the path from inside to the host's to. It writes below to alone, whatever the
// guest says that names and links are; a file there is replaced, whole or not at all.
func (c *Copier) Download(from, to string) (Copied, error) {
	info, err := c.files.Stat(path.Clean(from))
	if err != nil {
		return c.done, inside(from, err)
	}
	at := place{path: to}
	there, err := os.Stat(to)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c.done, err
	}
	at.exists, at.isFolder = err == nil, err == nil && there.IsDir()
	if at.exists && !at.isFolder && !there.Mode().IsRegular() {
		return c.done, fmt.Errorf("%s is neither a file nor a folder", to)
	}
	if to, err = at.within(path.Base(from), info.IsDir(), contentsOnly(from), filepath.Join); err != nil {
		return c.done, err
	}
	c.done.Made = to
	if !info.IsDir() {
		root, err := c.openRoot(filepath.Dir(to), false)
		if err != nil {
			return c.done, err
		}
		defer root.Close()
		return c.done, c.fetchFile(root, from, filepath.Base(to), info)
	}
	if c.Folder != nil {
		c.Folder(to)
	}
	root, err := c.openRoot(to, true)
	if err != nil {
		return c.done, err
	}
	defer root.Close()
	return c.done, c.fetchFolder(root, from, ".", 0)
}

// openRoot opens a folder of the host where c.Resolve says that it is, or makes it there. No link
// that was made since is followed.
func (c *Copier) openRoot(dir string, create bool) (*os.Root, error) {
	real, err := c.Resolve(dir)
	if errors.Is(err, fs.ErrNotExist) && create {
		if real, err = c.Resolve(filepath.Dir(filepath.Clean(dir))); err == nil {
			real = filepath.Join(real, filepath.Base(dir))
			err = os.Mkdir(real, 0o777)
		}
	}
	if err != nil {
		return nil, err
	}
	fd, err := unix.Openat2(unix.AT_FDCWD, real, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", real, err)
	}
	defer unix.Close(fd)
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(fd))
}

// fetchFolder copies what is in the folder from inside into rel of root.
func (c *Copier) fetchFolder(root *os.Root, from, rel string, depth int) error {
	if depth > maxDepth {
		return fmt.Errorf("%s: folders are more than %d deep", from, maxDepth)
	}
	c.list.Store(maxListing)
	entries, err := c.files.ReadDirContext(c.ctx, from)
	c.list.Store(0)
	if err != nil {
		return inside(from, err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !filepath.IsLocal(name) || strings.ContainsAny(name, "/\x00") || name == "." {
			return fmt.Errorf("%s: %q is no name of a file", from, name)
		}
		if err := c.next(path.Join(rel, name)); err != nil {
			return err
		}
		if err := c.fetch(root, path.Join(from, name), path.Join(rel, name), entry, depth); err != nil {
			return err
		}
	}
	return nil
}

// fetch copies one thing inside to rel of root.
func (c *Copier) fetch(root *os.Root, from, rel string, info fs.FileInfo, depth int) error {
	switch info.Mode().Type() {
	case fs.ModeDir:
		if err := root.Mkdir(rel, 0o777); err != nil {
			if there, statErr := root.Lstat(rel); statErr != nil || !there.IsDir() {
				return err
			}
		}
		return c.fetchFolder(root, from, rel, depth+1)
	case fs.ModeSymlink:
		target, err := c.files.ReadLink(from)
		if err != nil {
			return inside(from, err)
		}
		if !staysBelow(target, strings.Count(rel, "/")) {
			c.skip(rel, "a link out of the folder")
			return nil
		}
		if there, err := root.Lstat(rel); err == nil && !there.IsDir() {
			root.Remove(rel) // or the next says what is wrong
		}
		return root.Symlink(target, rel)
	case 0:
		return c.fetchFile(root, from, rel, info)
	}
	c.skip(rel, "neither a file, a folder nor a link")
	return nil
}

// staysBelow says whether a link, depth folders below a root, leads to what is below the root too,
// also where it goes through other such links: it may go up at its beginning only, where the
// folders are no links.
func staysBelow(target string, depth int) bool {
	if target == "" || path.IsAbs(target) || strings.Contains(target, "\x00") {
		return false
	}
	down := false
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; down || depth < 0 {
				return false
			}
		default:
			down = true
		}
	}
	return true
}

func (c *Copier) fetchFile(root *os.Root, from, rel string, info fs.FileInfo) (err error) {
	if !info.Mode().IsRegular() { // the guest would wait for the other end of a pipe
		c.skip(rel, "not a file")
		return nil
	}
	source, err := c.files.Open(from)
	if err != nil {
		return inside(from, err)
	}
	defer source.Close()
	perm := fs.FileMode(0o666)
	if info.Mode()&0o100 != 0 {
		perm = 0o777
	}
	part := path.Join(path.Dir(rel), ".forage-cp-"+rand.Text())
	target, err := root.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			root.Remove(part)
		}
	}()
	var disk unix.Statfs_t
	err = unix.Fstatfs(int(target.Fd()), &disk)
	if free := int64(disk.Bavail) * disk.Bsize; err == nil && (info.Size() < 0 || info.Size() > free) { // as the guest claims
		err = fmt.Errorf("it has %d bytes, and %d are free", info.Size(), free)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("%s: %w", rel, err), target.Close())
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{target}, c.counted(io.LimitReader(source, max(info.Size(), maxGrowth))), make([]byte, min(max(info.Size()+1, 4<<10), copyBuffer)))
	if err = errors.Join(inside(from, err), target.Close()); err != nil {
		return err
	}
	return root.Rename(part, rel)
}

// next counts one thing more.
func (c *Copier) next(name string) error {
	if c.done.Files++; c.done.Files > maxEntries {
		return fmt.Errorf("%s: there are more than %d files", name, maxEntries)
	}
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return nil
}

func (c *Copier) skip(name, why string) {
	if c.done.SkippedCount++; len(c.done.Skipped) < maxSkipped {
		c.done.Skipped = append(c.done.Skipped, name+": "+why)
	}
}

// counted counts what is read of a file.
func (c *Copier) counted(r io.Reader) io.Reader { return &counting{r, c} }

type counting struct {
	io.Reader
	c *Copier
}

func (r *counting) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.c.done.Bytes += int64(n)
	if r.c.Told != nil {
		r.c.Told(r.c.done.Bytes)
	}
	return n, err
}

// inside says of an error that it is about a path inside.
func inside(name string, err error) error {
	if err == nil {
		return nil
	}
	if status, ok := errors.AsType[*sftp.StatusError](err); ok { // sftp: "what the guest says" (SSH_FX_FAILURE)
		text := status.Error()
		if said, unquoteErr := strconv.Unquote(text[strings.Index(text, `"`) : strings.LastIndex(text, `"`)+1]); unquoteErr == nil && said != "" {
			err = errors.New(said)
		}
	}
	return fmt.Errorf("%s, inside: %w", name, err)
}
