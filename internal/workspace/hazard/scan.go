package hazard

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"forage/internal/workspace"
)

// Baseline is what Scan would have found when the sandbox was made, and what it was like, by path: it is what findings are
// compared with. Its values mean something to this package alone.
type Baseline map[string]string

// Take looks through the folder root as Scan does, and returns all that it would show. hooks are as in Scan.
func Take(ctx context.Context, root string, hooks ...string) (Baseline, error) {
	s, err := scan(ctx, root, nil, hooks)
	if err != nil {
		return nil, err
	}
	return s.now, nil
}

// Scan looks through the folder root, which is hostile and may change meanwhile. Findings that are in
// baseline with the same content are left out. hooks are files and folders below root, relative to it, that git is configured to
// execute. The worst come first; of one kind no more than maxFindings are named.
func Scan(ctx context.Context, root string, baseline Baseline, hooks ...string) ([]Finding, error) {
	if baseline == nil {
		baseline = Baseline{}
	}
	s, err := scan(ctx, root, baseline, hooks)
	if err != nil {
		return nil, err
	}
	return s.results(), nil
}

// Bounds of a look through a tree that was made to be in its way. What is beyond them is a finding itself.
const (
	maxDepth    = 100
	maxEntries  = 2_000_000
	maxFindings = 200     // named, of each kind
	maxContent  = 1 << 20 // bytes of a file that are compared
)

// maxMetadata bounds the bytes of repositories' own folders that are compared: in one there may be any number of others, and the holes
// of a file cost whoever makes them nothing.
var maxMetadata int64 = 4 << 30

// scanner looks through one tree, in several places of it at once.
type scanner struct {
	ctx     context.Context
	root    int
	before  Baseline // nil: everything is new, and only put down
	hooks   map[string]bool
	entries atomic.Int64
	read    atomic.Int64   // bytes of repositories' own folders
	others  sync.WaitGroup // goroutines that look beside the first
	free    chan struct{}  // has room while another one may be started

	mu     sync.Mutex
	now    Baseline
	full   bool // maxEntries were seen
	found  map[Kind][]Finding
	count  map[Kind]int
	named  map[string]bool // paths that were reported
	linked []linked
}

// maxOthers bounds how many goroutines look through a tree beside the first: each keeps folders open.
const maxOthers = 7

// linked is a folder that a link leads to in the place of a folder with a rule: .claude -> tools/claude.
type linked struct {
	path string
	rule rule
}

// maxLinked bounds how many such folders are looked through once more.
const maxLinked = 100

func scan(ctx context.Context, root string, before Baseline, hooks []string) (*scanner, error) {
	top, err := workspace.OpenFolder(root)
	if err != nil {
		return nil, fmt.Errorf("looking through %s: %w", root, err)
	}
	defer top.Close()
	fd := int(top.Fd())
	s := &scanner{
		ctx: ctx, root: fd, before: before, hooks: map[string]bool{}, free: make(chan struct{}, min(runtime.GOMAXPROCS(0)-1, maxOthers)),
		now: Baseline{}, found: map[Kind][]Finding{}, count: map[Kind]int{}, named: map[string]bool{},
	}
	for _, dir := range hooks {
		if dir = path.Clean(dir); dir != "." && !strings.HasPrefix(dir, "../") && !path.IsAbs(dir) {
			s.hooks[dir] = true
		}
	}
	s.folder(folder{fd: fd})
	s.others.Wait()
	slices.SortFunc(s.linked, func(a, b linked) int { // they were met in no order, and what is reported first counts
		return cmp.Or(slices.Index(worstFirst, a.rule.kind)-slices.Index(worstFirst, b.rule.kind), strings.Compare(a.path, b.path))
	})
	for _, l := range s.linked {
		if fd := openBelow(s.root, l.path); fd >= 0 {
			s.folder(folder{fd: fd, path: l.path, under: l.rule})
			s.others.Wait()
			unix.Close(fd)
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking through %s: %w", root, context.Cause(ctx))
	}
	return s, nil
}

// report records a file that a tool of the host would execute. state says what it is like now.
func (s *scanner) report(file string, r rule, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		s.now[file] = state
		return
	}
	if s.same(file, state) || s.named[file] {
		return
	}
	s.named[file] = true
	s.count[r.kind]++
	s.found[r.kind] = insert(s.found[r.kind], Finding{file, r.kind, r.why})
}

// insert adds f to a list that is sorted by path, and keeps the first maxFindings of it.
func insert(list []Finding, f Finding) []Finding {
	at, _ := slices.BinarySearchFunc(list, f.Path, func(known Finding, path string) int { return strings.Compare(known.Path, path) })
	if at == maxFindings {
		return list
	}
	list = slices.Insert(list, at, f)
	return list[:min(len(list), maxFindings)]
}

// same says whether file was there before, and like that.
func (s *scanner) same(file, state string) bool {
	was, known := s.before[file]
	return known && was == state
}

func (s *scanner) results() []Finding {
	var all []Finding
	for _, kind := range worstFirst {
		found := s.found[kind]
		if more := s.count[kind] - maxFindings; more > 0 {
			found[0].Why += fmt.Sprintf(" (%d more are like it, which are not named)", more)
		}
		all = append(all, found...)
	}
	return all
}
