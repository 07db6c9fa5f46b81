package acceptance

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"forage/internal/testdir"
)

// A search looks for secrets byte by byte in all that a sandbox has, from
// outside, where nothing is hidden: what its processes have in memory, in their
// environment and on their command lines, the files that they see, and what Forage writes
// about it. The supervisor alone, which puts secrets into requests, is not looked at.
type search struct {
	needles map[string]string // forms of secrets, and what each is a form of
	longest int
	buffer  []byte // for what is read

	found     map[string]bool // "PLACE: what and where"
	processes []int
	closed    []string // processes into which an ordinary user doesn't see
	memory    int64    // bytes
	files     int
}

// newSearch looks for secrets, by their names. Of each it takes the middle, in
// every form that it might have been turned into.
func newSearch(secrets map[string]string) *search {
	s := &search{needles: map[string]string{}, found: map[string]bool{}}
	for name, secret := range secrets {
		core := secret[len(secret)-min(len(secret), 40):]
		for form, needle := range formsOf(core) {
			s.needles[needle] = name + ", " + form
			s.longest = max(s.longest, len(needle))
		}
	}
	s.buffer = make([]byte, 1<<20+s.longest) // one for all: there are hundreds of thousands of files
	return s
}

// formsOf are the forms of a text: a form of base64 for each way in which it can
// be aligned in what is encoded.
func formsOf(text string) map[string]string {
	forms := map[string]string{
		"raw":           text,
		"hex":           hex.EncodeToString([]byte(text)),
		"HEX":           strings.ToUpper(hex.EncodeToString([]byte(text))),
		"reversed":      reversed(text),
		"UTF-16":        wide(text),
		"percent":       percent(text, "%%%02x"),
		"PERCENT":       percent(text, "%%%02X"),
		"JSON's escape": percent(text, "\\u%04x"),
	}
	for shift := range 3 {
		encoded := base64.StdEncoding.EncodeToString(append(make([]byte, shift), text...))
		// Without what depends on the neighbours.
		encoded = strings.TrimRight(encoded, "=")
		forms[fmt.Sprintf("base64 at %d", shift)] = encoded[4 : len(encoded)-3]
		forms[fmt.Sprintf("base64 for URLs at %d", shift)] = strings.NewReplacer("+", "-", "/", "_").Replace(encoded[4 : len(encoded)-3])
	}
	return forms
}

func reversed(text string) string {
	bytes := []byte(text)
	slices.Reverse(bytes)
	return string(bytes)
}

func wide(text string) string {
	var out []byte
	for _, b := range []byte(text) {
		out = append(out, b, 0)
	}
	return string(out)
}

func percent(text, format string) string {
	var out strings.Builder
	for _, b := range []byte(text) {
		fmt.Fprintf(&out, format, b)
	}
	return out.String()
}

// in looks into what a reader gives, of any length.
func (s *search) in(place string, r io.Reader) {
	buf, kept := s.buffer, 0
	for {
		n, err := io.ReadFull(r, buf[kept:])
		s.look(place, buf[:kept+n])
		if err != nil {
			return // the end, or what can't be read, inside neither
		}
		kept = copy(buf, buf[len(buf)-s.longest:])
	}
}

func (s *search) look(place string, data []byte) {
	for needle, form := range s.needles {
		if bytes.Contains(data, []byte(needle)) {
			s.found[place+": "+form] = true
		}
	}
}

// sandbox looks into all processes of the sandbox that works on project, and into
// the files that they see.
func (s *search) sandbox(t *testing.T, project string) {
	t.Helper()
	pids := inside(t, project)
	seen := map[string]bool{}
	for _, pid := range pids {
		s.process(pid)
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
		if err == nil && !seen[link] {
			seen[link] = true
			for _, dir := range []string{"home", "tmp", "run", "workspace", "etc", "var", "root", "dev/shm", "opt", "srv", "mnt"} {
				s.tree("file", fmt.Sprintf("/proc/%d/root/%s", pid, dir))
			}
		}
	}
	if len(s.processes) == 0 || s.memory == 0 || s.files == 0 {
		t.Errorf("looked at %d processes, %d bytes of memory and %d files: that is no search", len(s.processes), s.memory, s.files)
	}
}

// process looks into one process.
func (s *search) process(pid int) {
	dir := fmt.Sprintf("/proc/%d", pid)
	name, err := os.ReadFile(dir + "/comm")
	if err != nil {
		return // gone
	}
	who := fmt.Sprintf("of %d (%s)", pid, bytes.TrimSpace(name))
	for place, file := range map[string]string{"environment": "environ", "command line": "cmdline"} {
		if data, err := os.ReadFile(dir + "/" + file); err == nil {
			s.look(place+" "+who, data)
		}
	}
	switch err := s.memoryOf(pid, who); {
	case err == nil:
		s.processes = append(s.processes, pid)
	case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH): // not just gone
		s.closed = append(s.closed, fmt.Sprintf("%s: %v", who, err))
		if !first(pid) {
			s.found["nothing, since it can't be looked at: memory "+who] = true
		}
	}
}

// memoryOf looks into the pages that a process has: not into what it has only
// reserved, which is terabytes for some.
func (s *search) memoryOf(pid int, who string) error {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return err
	}
	defer maps.Close()
	mem, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return err
	}
	defer mem.Close()
	pages, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return err
	}
	defer pages.Close()
	lines := bufio.NewScanner(maps)
	for lines.Scan() {
		bounds, _, _ := strings.Cut(lines.Text(), " ")
		from, to, _ := strings.Cut(bounds, "-")
		start, startErr := strconv.ParseUint(from, 16, 64)
		end, endErr := strconv.ParseUint(to, 16, 64)
		if startErr != nil || endErr != nil || start >= 1<<63 { // vsyscall, which is the kernel's
			continue
		}
		for _, run := range present(pages, start, end) {
			s.in("memory "+who, io.NewSectionReader(mem, int64(run[0]), int64(run[1]-run[0])))
			s.memory += int64(run[1] - run[0])
		}
	}
	return lines.Err()
}

// present are the parts of a mapping that are in memory or swapped out
// (Documentation/admin-guide/mm/pagemap.rst).
func present(pages io.ReaderAt, start, end uint64) [][2]uint64 {
	const (
		there = 1<<63 | 1<<62
		batch = 1 << 16 // pages
	)
	size := uint64(os.Getpagesize())
	var runs [][2]uint64
	entries := make([]byte, 8*batch)
	for at := start; at < end; {
		n, err := pages.ReadAt(entries[:8*min(batch, (end-at)/size)], int64(at/size*8))
		for i := 0; i+8 <= n; i += 8 {
			if binary.NativeEndian.Uint64(entries[i:])&there != 0 {
				if last := len(runs) - 1; last >= 0 && runs[last][1] == at {
					runs[last][1] += size
				} else {
					runs = append(runs, [2]uint64{at, at + size})
				}
			}
			at += size
		}
		if err != nil || n == 0 {
			break
		}
	}
	return runs
}

// tree looks into the names and contents of all files below a folder.
func (s *search) tree(place, root string) {
	_ = filepath.WalkDir(root+"/", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil // removed meanwhile, or not readable inside
		}
		s.look(place+" name "+path, []byte(entry.Name()))
		switch entry.Type() {
		case fs.ModeSymlink:
			if target, err := os.Readlink(path); err == nil {
				s.look(place+" "+path, []byte(target))
			}
		case 0:
			s.file(place, path)
		}
		return nil
	})
}

func (s *search) file(place, path string) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	s.files++
	s.in(place+" "+path, file)
}

// check wants nothing to have been found.
func (s *search) check(t *testing.T) {
	t.Helper()
	for _, place := range slices.Sorted(maps.Keys(s.found)) {
		t.Errorf("a secret is in %s", place)
	}
	t.Logf("looked at %d processes, %d MB of memory and %d files; closed: %q", len(s.processes), s.memory>>20, s.files, s.closed)
}

// inside are the processes of the sandbox that works on a project: those that see it as their
// workspace, and the first of them, into which only root sees.
func inside(t *testing.T, project string) []int {
	t.Helper()
	dirs, err := filepath.Glob("/proc/[0-9]*")
	testdir.Must(t, err)
	want, err := os.Stat(project)
	testdir.Must(t, err)
	found := map[int]bool{}
	for _, dir := range dirs {
		work, err := os.Stat(dir + "/root/workspace")
		if err != nil || !os.SameFile(work, want) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(dir))
		testdir.Must(t, err)
		found[pid] = true
		for at := pid; ; { // up to what is outside
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", at))
			if err != nil || !nested(string(status)) {
				break
			}
			found[at] = true
			if at, err = strconv.Atoi(field(string(status), "PPid")); err != nil {
				t.Fatal(err)
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// first says whether a process is the first of its PID namespace: Forage's own, which
// only root may look into. TestSecretsAsRoot does.
func first(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	ids := strings.Fields(field(string(status), "NSpid"))
	return err == nil && len(ids) > 1 && ids[len(ids)-1] == "1"
}

// nested says whether a process is in a PID namespace below ours (proc_pid_status(5)).
func nested(status string) bool { return len(strings.Fields(field(status, "NSpid"))) > 1 }

func field(status, name string) string {
	_, rest, _ := strings.Cut("\n"+status, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\n")
	return strings.TrimSpace(value)
}
