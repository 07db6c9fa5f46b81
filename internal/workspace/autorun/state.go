package autorun

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"os"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
	"forage/internal/workspace"
)

// The state of a file is "STAT CONTENT": what the file system says of it, and a digest of its content. STAT has the ctime,
// which can't be forged: as long as STAT is the same, so is the content, and the file is not read again.

// modeState are the bits of a mode that count: who may execute it, and as whom.
const (
	modeIdentity = unix.S_ISUID | unix.S_ISGID
	modeState    = modeExecutable | modeIdentity
)

// racy is the STAT of a file that may be changed again without another STAT, and that of no file: it is read each time.
const racy = "racy"

// fileState is the state of the regular file name in the folder dir.
func (s *scanner) fileState(dir *os.Root, name, file string, st *syscall.Stat_t) string {
	stat := fmt.Sprintf("%o:%d:%d:%d.%d:%d.%d", st.Mode&modeState, st.Size, st.Ino, st.Mtim.Sec, st.Mtim.Nsec, st.Ctim.Sec, st.Ctim.Nsec)
	if s.isNew(file) {
		return stat
	}
	was := s.before[file]
	wasStat, wasContent, _ := strings.Cut(was, " ")
	if workspace.Racy(unix.Timespec{Sec: st.Ctim.Sec, Nsec: st.Ctim.Nsec}, time.Now()) {
		stat = racy
	} else if wasStat == stat {
		return was
	}
	d := newDigest()
	d.text(fmt.Sprintf("%t:%o:%d", st.Mode&modeExecutable != 0, st.Mode&modeIdentity, st.Size))
	d.text(content(dir, name))
	if now := d.sum(); wasContent != now {
		return stat + " " + now
	}
	return was
}

// isNew says that file was not there before. There is nothing to compare it with, so it is not read.
func (s *scanner) isNew(file string) bool {
	_, known := s.before[file]
	return s.before != nil && !known
}

// content is what stands for the content of a file: itself, or, if it is too large or no file, its kind and the time of its last change.
func content(dir *os.Root, name string) string {
	text, _, err := hostile.ReadIn(dir, name, maxContent)
	if err == nil {
		return string(text)
	}
	info, err := dir.Lstat(name)
	if err != nil {
		return "absent"
	}
	st := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%v %d %d.%d", info.Mode().Type(), st.Size, st.Ctim.Sec, st.Ctim.Nsec)
}

// executing are the files in a repository's own folder that name programs to execute, or other files that do.
var executing = set(`config config.worktree commondir gitdir attributes alternates
	repo config.toml workspace-config.toml git_target
	hgrc hgrc-not-shared sharedpath requires`)

// below are the folders in it where such files are. Below modules a repository may have any name.
var below = set("hooks info modules worktrees repo store git")

// without are the folders of a repository below modules where no such files are, and many others. alternates of objects are looked at.
var without = set("objects refs logs lfs")

// metadataState is the state of something with the name of a repository's own folder: of a file its content, of a folder the
// files in it, and in the repositories of submodules and worktrees, that have programs executed.
func (s *scanner) metadataState(dir *os.Root, name, file string) string {
	if s.isNew(file) {
		return ""
	}
	d := newDigest()
	if target, err := dir.Readlink(name); err == nil {
		d.text("link " + target)
		return d.sum()
	}
	inner, err := dir.OpenRoot(name)
	if err != nil {
		d.text("file " + content(dir, name))
		return d.sum()
	}
	s.executing(d, inner, "", 0)
	return d.sum()
}

// executing adds the files in the repository's folder dir that have programs executed, and closes it.
func (s *scanner) executing(d *digest, dir *os.Root, at string, depth int) {
	defer dir.Close()
	entries, err := list(dir)
	if err != nil && len(entries) > 0 || depth > maxDepth {
		d.text("unseen")
	}
	for _, e := range entries {
		seen := s.entries.Add(1)
		if seen > maxEntries || depth > maxDepth || s.read.Load() > maxMetadata || s.ctx.Err() != nil {
			d.text(fmt.Sprint("unseen ", seen)) // what it never was
			return
		}
		name := path.Join(at, e.Name())
		if e.IsDir() {
			if e.Name() == "objects" {
				s.take(d, dir, name, "objects/info/alternates")
			}
			named := path.Base(at) == "worktrees" || strings.Contains("/"+at+"/", "/modules/") && !without[e.Name()]
			if !below[e.Name()] && !named {
				continue
			}
			if inner, err := dir.OpenRoot(e.Name()); err == nil {
				s.executing(d, inner, name, depth+1)
			}
		} else if executing[e.Name()] || path.Base(at) == "hooks" && !strings.HasSuffix(e.Name(), ".sample") { // git runs none of that name
			s.take(d, dir, name, e.Name())
		}
	}
}

// take adds a file of a repository's folder. A linked worktree of git's, which comes and goes, has nothing that counts.
func (s *scanner) take(d *digest, dir *os.Root, at, name string) {
	text := content(dir, name)
	s.read.Add(int64(len(text)))
	inWorktree := path.Base(path.Dir(path.Dir(at))) == "worktrees"
	if text == "absent" || inWorktree && (name == "gitdir" || name == "commondir" && strings.TrimSuffix(text, "\n") == "../..") {
		return
	}
	target, _ := dir.Readlink(name)
	d.text(at + "\x00" + target + "\x00" + withoutBranches(text))
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

func (d *digest) sum() string { return hex.EncodeToString(d.hash.Sum(nil)[:16]) }
