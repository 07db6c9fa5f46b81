package gitrepo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
)

// Bounds of what is read of private metadata.
const (
	maxInsideRefs   = 100_000
	maxInsideName   = 1024     // bytes of a ref's name
	maxInsideRef    = 4 << 10  // bytes of a file with one ref
	maxInsidePacked = 64 << 20 // bytes of packed-refs
	maxInsideDepth  = 32       // folders below refs/
	maxSymbolic     = 5        // as git has it
)

// errIrregular says that something is not what git would have put there.
var errIrregular = errors.New("not what git makes there")

// metadata is a private git directory, read as data: whoever wrote it is hostile, and may be
// writing. Nothing is reached through a link or from elsewhere, and nothing is waited for.
type metadata struct {
	fd   int
	path string
}

func openMetadata(dir string) (*metadata, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	return &metadata{fd, dir}, nil
}

func (m *metadata) close() { unix.Close(m.fd) }

// raceTries is how often openat2(2) is asked again that lost a race with a rename.
const raceTries = 16

func (m *metadata) openat(name string, flags uint64) (*os.File, error) {
	var fd int
	err := error(unix.EAGAIN)
	for range raceTries {
		fd, err = unix.Openat2(m.fd, name, &unix.OpenHow{
			Flags: flags | unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC, Resolve: beneath,
		})
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case err != nil:
		return nil, fmt.Errorf("%s: %w: %w", name, err, errIrregular)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// open opens a regular file of at most limit bytes. fs.ErrNotExist or errIrregular.
func (m *metadata) open(name string, limit int64) (*os.File, fs.FileInfo, error) {
	file, err := m.openat(name, 0)
	if err != nil {
		return nil, nil, err
	}
	info, err := file.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fmt.Errorf("%s: not a file: %w", name, errIrregular)
	case info.Size() > limit:
		err = fmt.Errorf("%s: more than %d bytes: %w", name, limit, errIrregular)
	}
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return file, info, nil
}

// read reads a regular file. One that grows meanwhile is cut off at limit.
func (m *metadata) read(name string, limit int64) ([]byte, error) {
	file, _, err := m.open(name, limit)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}

// listed is an entry of a folder.
type listed struct {
	name   string
	folder bool
}

// list reads a folder, at most limit entries of it. An absent one is empty.
func (m *metadata) list(name string, limit int) ([]listed, error) {
	dir, err := m.openat(name, unix.O_DIRECTORY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(limit + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(names) > limit {
		return nil, fmt.Errorf("%s: more than %d entries: %w", name, limit, errIrregular)
	}
	entries := make([]listed, 0, len(names))
	for _, name := range names {
		var stat unix.Stat_t
		if unix.Fstatat(int(dir.Fd()), name, &stat, unix.AT_SYMLINK_NOFOLLOW) != nil {
			continue // gone meanwhile
		}
		entries = append(entries, listed{name, stat.Mode&unix.S_IFMT == unix.S_IFDIR})
	}
	return entries, nil
}

// branch is the commit that a ref is at, "" if it has none.
func (m *metadata) branch(name string) (string, error) {
	if err := m.hasFiles(); err != nil {
		return "", err
	}
	for range maxSymbolic {
		text, err := m.read(name, maxInsideRef) // before packed-refs: what is packed meanwhile is found in one of the two
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EISDIR) || isFolder(m, name, err) {
			return m.packedBranch(name)
		}
		if err != nil {
			return "", err
		}
		id, target, err := parseRef(text)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, err)
		}
		if id != "" {
			return id, nil
		}
		name = target
	}
	return "", fmt.Errorf("%s: refs that name each other: %w", name, errIrregular)
}

// hasFiles says whether refs are files: in a reftable there would seem to be none.
func (m *metadata) hasFiles() error {
	_, err := m.read("reftable/tables.list", maxInsideRef)
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return forage.Errorf(forage.ErrUnsupported, "the repository inside was changed to reftable, which is not read here")
	}
	return nil
}

// isFolder says whether what can't be read is a folder, as of the branches x/y where x was: git takes x for absent.
func isFolder(m *metadata, name string, err error) bool {
	if err == nil {
		return false
	}
	dir, err := m.openat(name, unix.O_DIRECTORY)
	if err == nil {
		dir.Close()
	}
	return err == nil
}

func (m *metadata) packedBranch(name string) (string, error) {
	packed, err := m.packed()
	return packed[name], err
}

func (m *metadata) packed() (map[string]string, error) {
	text, err := m.read("packed-refs", maxInsidePacked)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePacked(text)
}

// head is what HEAD is at, and the full name of its branch; "" is a detached one.
func (m *metadata) head() (id, branch string, err error) {
	text, err := m.read("HEAD", maxInsideRef)
	if err != nil {
		return "", "", err
	}
	id, branch, err = parseRef(text)
	if err != nil {
		return "", "", fmt.Errorf("HEAD: %w", err)
	}
	if branch != "" {
		id, err = m.branch(branch)
	}
	return id, branch, err
}

// refs are all refs by full name, and what among them can't be read. Symbolic ones are left out.
func (m *metadata) refs() (found map[string]string, odd []string, err error) {
	if err := m.hasFiles(); err != nil {
		return nil, nil, err
	}
	found = make(map[string]string)
	loose := make(map[string]bool)
	left := maxInsideRefs
	var walk func(dir string, depth int) error
	walk = func(dir string, depth int) error {
		entries, err := m.list(dir, left)
		if err != nil {
			return err
		}
		left -= len(entries)
		for _, entry := range entries {
			name := path.Join(dir, entry.name)
			switch {
			case strings.HasSuffix(name, ".lock"):
			case entry.folder && depth < maxInsideDepth:
				if err := walk(name, depth+1); err != nil {
					odd = append(odd, name)
				}
			case !validRef(name):
				odd = append(odd, name)
			default:
				text, err := m.read(name, maxInsideRef)
				id, _, parseErr := parseRef(text)
				switch {
				case errors.Is(err, fs.ErrNotExist): // packed or deleted meanwhile
				case err != nil || parseErr != nil:
					odd, loose[name] = append(odd, name), true
				default:
					found[name], loose[name] = id, true
				}
			}
		}
		return nil
	}
	if err := walk("refs", 0); err != nil {
		return nil, nil, err
	}
	packed, err := m.packed()
	if err != nil {
		return nil, nil, err
	}
	for name, id := range packed {
		if !loose[name] {
			found[name] = id
		}
	}
	for name, id := range found {
		if id == "" {
			delete(found, name)
		}
	}
	slices.Sort(odd)
	return found, odd, nil
}

// parseRef reads gitrepository-layout(5)'s file of one ref: an id in hex, or the name of another ref.
func parseRef(text []byte) (id, target string, err error) {
	if rest, ok := bytes.CutPrefix(text, []byte("ref:")); ok {
		target = string(bytes.TrimSpace(rest))
		if !validRef(target) {
			return "", "", fmt.Errorf("it names no ref: %w", errIrregular)
		}
		return "", target, nil
	}
	id = string(bytes.TrimRight(text, " \t\r\n"))
	if !isHex(id) {
		return "", "", fmt.Errorf("it holds no object's name: %w", errIrregular)
	}
	return id, "", nil
}

// parsePacked reads packed-refs. A line that git would not have written spoils the whole.
func parsePacked(text []byte) (map[string]string, error) {
	refs := make(map[string]string)
	for line := range bytes.Lines(text) {
		line, ended := bytes.CutSuffix(line, []byte("\n"))
		switch {
		case !ended:
			return nil, fmt.Errorf("packed-refs: cut off: %w", errIrregular)
		case len(line) > 0 && line[0] == '#':
			continue
		case len(line) > 0 && line[0] == '^' && isHex(string(line[1:])):
			continue
		}
		id, name, ok := strings.Cut(string(line), " ")
		if !ok || !isHex(id) || !validRef(name) {
			return nil, fmt.Errorf("packed-refs: a line that names no ref: %w", errIrregular)
		}
		if refs[name] = id; len(refs) > maxInsideRefs {
			return nil, fmt.Errorf("packed-refs: more than %d refs: %w", maxInsideRefs, errIrregular)
		}
	}
	return refs, nil
}

// validRef says whether name is a full ref name by git-check-ref-format(1).
func validRef(name string) bool {
	if !strings.HasPrefix(name, "refs/") || len(name) > maxInsideName || strings.HasSuffix(name, ".") ||
		strings.Contains(name, "..") || strings.Contains(name, "@{") {
		return false
	}
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c == 0x7f || strings.IndexByte(`~^:?*[\`, c) >= 0 {
			return false
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part[0] == '.' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
