package hazard

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// The state of a file is "STAT CONTENT": what the file system says of it, and a digest of its content. STAT has the ctime,
// which nobody can forge: as long as STAT is the same, so is the content, and the file is not read again.

// modeState are the bits of a mode that count: who may execute it, and as whom.
const (
	modeIdentity = unix.S_ISUID | unix.S_ISGID
	modeState    = modeExecutable | modeIdentity
)

// racy is the STAT of a file that may be changed again without another STAT, and that of no file: it is read each time.
const racy = "racy"

// fileState is the state of the regular file name in the folder dir.
func (s *scanner) fileState(dir int, name, file string, st unix.Stat_t) string {
	stat := fmt.Sprintf("%o:%d:%d:%d.%d:%d.%d", st.Mode&modeState, st.Size, st.Ino, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	was, known := s.before[file]
	if s.isNew(file) {
		return stat
	}
	wasStat, wasContent, _ := strings.Cut(was, " ")
	if workspace.Racy(st.Ctim, time.Now()) {
		stat = racy
	} else if known && wasStat == stat {
		return was
	}
	content := s.contentState(dir, name, st)
	if known && wasContent == content {
		return was
	}
	return stat + " " + content
}

// isNew says that file was not there before. There is nothing to compare it with, so it is not read: that would only take
// time, as much as whoever is inside likes.
func (s *scanner) isNew(file string) bool {
	_, known := s.before[file]
	return s.before != nil && !known
}

// contentState is a digest of a file.
func (s *scanner) contentState(dir int, name string, st unix.Stat_t) string {
	d := newDigest()
	d.text(fmt.Sprintf("%t:%o:%d", st.Mode&modeExecutable != 0, st.Mode&modeIdentity, st.Size))
	d.text(readFile(dir, name))
	return d.sum()
}

// readFile returns a regular file. Of one that is too large to be read whole, it is the time of the last change, first, so that nothing
// leaves it out, and the beginning; what is no file, or can't be read, is said in its place.
func readFile(dir int, name string) string {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return "error: " + err.Error()
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return "not a file"
	}
	text, err := io.ReadAll(io.LimitReader(f, maxContent+1))
	if err != nil {
		return "error: " + err.Error()
	}
	if len(text) > maxContent {
		return fmt.Sprintf("%d.%d of %d bytes\n%s", st.Ctim.Sec, st.Ctim.Nsec, st.Size, text)
	}
	return string(text)
}

// readLink returns the text of a symbolic link.
func readLink(dir int, name string) (string, error) {
	buf := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(dir, name, buf)
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// executing are the files in a repository's own folder that name programs to execute, or other files that do. A name that ends
// with a slash is a folder of such files.
var executing = []string{
	"config", "config.worktree", "commondir", "gitdir", "hooks/", "info/attributes", "objects/info/alternates", // git
	"repo", "repo/config.toml", "config.toml", "workspace-config.toml", "repo/workspace-config.toml", // jj
	// jj's own git repository, in which it starts git for fetching and pushing.
	"repo/store/git_target", "repo/store/git/config", "repo/store/git/commondir", "repo/store/git/hooks/", "repo/store/git/objects/info/alternates",
	"hgrc", "hgrc-not-shared", "sharedpath", "requires", // Mercurial
}

// metadataState is the state of something with the name of a repository's own folder: of a file its content, of a folder the
// files in it that have programs executed.
func (s *scanner) metadataState(dir int, name, file string) string {
	d := newDigest()
	if s.isNew(file) {
		return ""
	}
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		target, _ := readLink(dir, name)
		d.text("no folder" + target)
		d.text(readFile(dir, name))
		return d.sum()
	}
	defer unix.Close(fd)
	s.executing(d, fd)
	// Repositories of submodules, and of other worktrees, are below that of their owner.
	for _, below := range []string{"modules", "worktrees"} {
		s.nested(d, fd, below, 0)
	}
	return d.sum()
}

// executing adds the files in the repository's folder dir that have programs executed.
func (s *scanner) executing(d *digest, dir int) {
	if s.enough(d, 0) {
		return
	}
	content := func(text string) {
		s.read.Add(int64(len(text)))
		d.text(text)
	}
	for _, name := range executing {
		below, isFolder := strings.CutSuffix(name, "/")
		if !isFolder {
			d.text(name)
			content(withoutBranches(readBelow(dir, name)))
			continue
		}
		fd := openBelow(dir, below)
		if fd < 0 {
			continue
		}
		list, _ := listFolder(fd)
		for _, e := range list[:min(len(list), 1000)] {
			if s.enough(d, 0) {
				break
			}
			d.text(name + e.name)
			target, _ := readLink(fd, e.name)
			content(target + readFile(fd, e.name))
		}
		d.text(fmt.Sprint(len(list)))
		unix.Close(fd)
	}
}

// enough says that no more of repositories' own folders is to be looked at, this deep. Then d becomes what it never was.
func (s *scanner) enough(d *digest, depth int) bool {
	seen := s.entries.Add(1)
	if seen <= maxEntries && depth <= maxDepth && s.read.Load() <= maxMetadata && s.ctx.Err() == nil {
		return false
	}
	d.text(fmt.Sprint("unseen ", seen))
	return true
}

// nested does the same for all repositories below the folder name.
func (s *scanner) nested(d *digest, dir int, name string, depth int) {
	fd := openBelow(dir, name)
	if fd < 0 {
		return
	}
	defer unix.Close(fd)
	if s.enough(d, depth) {
		return
	}
	list, _ := listFolder(fd)
	if slices.ContainsFunc(list, func(e entry) bool { return e.name == "HEAD" }) && !(depth == 1 && plainWorktree(dir, name, list)) {
		d.text(name)
		s.executing(d, fd)
	}
	for _, e := range list {
		if e.kind == unix.DT_DIR && !slices.Contains([]string{"objects", "refs", "logs", "hooks", "info"}, e.name) {
			s.nested(d, fd, e.name, depth+1)
		}
	}
}

// plainWorktree says whether the folder name, below worktrees/ of a repository's own folder, is as git makes it for a linked
// worktree: it only says where the worktree is. Git on the host makes and removes such folders, which is no finding.
func plainWorktree(dir int, name string, list []entry) bool {
	has := func(name string) bool { return slices.ContainsFunc(list, func(e entry) bool { return e.name == name }) }
	return strings.TrimSuffix(readBelow(dir, name+"/commondir"), "\n") == "../.." && !has("config") && !has("config.worktree") && !has("hooks")
}

// openBelow opens a folder below dir, through no link; -1: there is none.
func openBelow(dir int, name string) int {
	fd, err := unix.Openat2(dir, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		return -1
	}
	return fd
}

// readBelow is readFile for a path.
func readBelow(dir int, file string) string {
	parent, name := path.Split(file)
	if parent == "" {
		return readFile(dir, name)
	}
	fd := openBelow(dir, path.Clean(parent))
	if fd < 0 {
		return ""
	}
	defer unix.Close(fd)
	return readFile(fd, name)
}

// withoutBranches leaves out sections like [branch "main"], which git itself writes on many a push and
// checkout, and which execute nothing.
func withoutBranches(config string) string {
	var kept strings.Builder
	skipping := false
	for line := range strings.Lines(config) {
		trimmed := strings.TrimSpace(line)
		if strings.HasPrefix(trimmed, "[") {
			skipping = strings.HasPrefix(trimmed, `[branch "`) && strings.HasSuffix(trimmed, `"]`) && strings.Count(trimmed, "]") == 1
		}
		if !skipping {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// digest is a hash of a list of texts.
type digest struct {
	hash hash.Hash
	used bool
}

func newDigest() *digest { return &digest{hash: sha256.New()} }

func (d *digest) text(text string) {
	d.used = true
	fmt.Fprintf(d.hash, "%d:%s", len(text), text)
}

// add counts a file by what the file system says of it.
func (d *digest) add(file string, st unix.Stat_t) {
	d.text(fmt.Sprintf("%s\x00%o:%d:%d:%d.%d", file, st.Mode&modeState, st.Size, st.Ino, st.Ctim.Sec, st.Ctim.Nsec))
}

func (d *digest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)[:16]) }
