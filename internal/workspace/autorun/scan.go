package autorun

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"forage/internal/workspace"
)

// Baseline is what Scan would have found when the sandbox was made, and what it was like, by path: it is what findings are
// compared with. Its values mean something to this package alone.
type Baseline map[string]string

// Take looks through the folder root as Scan does, and returns all that it would show. hooks are as in Scan.
func Take(ctx context.Context, root string, hooks ...string) (Baseline, error) {
	before, _, err := Look(ctx, root, hooks...)
	return before, err
}

// Look is Take, and names the files that have setuid or setgid.
func Look(ctx context.Context, root string, hooks ...string) (_ Baseline, identities []string, err error) {
	s, err := scan(ctx, root, nil, hooks)
	if err != nil {
		return nil, nil, err
	}
	return s.now, s.identities, nil
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
	maxOthers   = 7       // goroutines that look beside the first: each keeps folders open
	maxLinked   = 100     // folders that are looked through once more: see linked
)

// maxMetadata bounds the bytes of repositories' own folders that are compared: in one there may be any number of others, and the holes
// of a file cost nothing.
var maxMetadata int64 = 4 << 30

// scanner looks through one tree, in several places of it at once.
type scanner struct {
	ctx     context.Context
	top     *os.Root
	at      string   // the path of top
	outside error    // says that a path leads out of top
	before  Baseline // nil: everything is new, and only put down
	hooks   map[string]bool
	entries atomic.Int64
	read    atomic.Int64   // bytes of repositories' own folders
	full    sync.Once      // maxEntries were seen
	others  sync.WaitGroup // goroutines that look beside the first
	free    chan struct{}  // has room while another one may be started

	mu     sync.Mutex
	now    Baseline
	found  map[string]Finding // by path
	linked []linked

	identities []string // files with setuid or setgid
}

// linked is a folder that a link leads to in the place of a folder with a rule: .claude -> tools/claude.
type linked struct {
	path string
	rule rule
}

func scan(ctx context.Context, root string, before Baseline, hooks []string) (*scanner, error) {
	s := &scanner{
		ctx: ctx, before: before, hooks: map[string]bool{}, free: make(chan struct{}, min(runtime.GOMAXPROCS(0)-1, maxOthers)),
		now: Baseline{}, found: map[string]Finding{},
	}
	for _, dir := range hooks {
		if dir = path.Clean(dir); dir != "." && !strings.HasPrefix(dir, "../") && !path.IsAbs(dir) {
			s.hooks[dir] = true
		}
	}
	err := s.open(root)
	if err != nil {
		return nil, fmt.Errorf("looking through %s: %w", root, err)
	}
	defer s.top.Close()
	s.folder(folder{Root: s.top})
	s.others.Wait()
	slices.SortFunc(s.linked, func(a, b linked) int { // they were met in no order, and what is reported first counts
		return cmp.Or(slices.Index(worstFirst, a.rule.kind)-slices.Index(worstFirst, b.rule.kind), strings.Compare(a.path, b.path))
	})
	for _, l := range s.linked {
		if dir, err := s.top.OpenRoot(l.path); err == nil {
			s.folder(folder{Root: dir, path: l.path, under: l.rule})
			s.others.Wait()
			dir.Close()
		}
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("looking through %s: %w", root, context.Cause(ctx))
	}
	return s, nil
}

func (s *scanner) open(root string) error {
	_ = workspace.Permit(root, 0o500) // else opening says why not
	opened, err := workspace.OpenFolder(root)
	if err != nil {
		return err
	}
	defer opened.Close()
	itself := fmt.Sprintf("/proc/self/fd/%d", opened.Fd())
	if s.at, err = os.Readlink(itself); err != nil {
		return err
	}
	if s.top, err = os.OpenRoot(itself); err != nil {
		return err
	}
	_, err = s.top.Lstat("../x")
	s.outside = underlying(err)
	return nil
}

func underlying(err error) error {
	var at *fs.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return nil
}

// report records a file that a tool of the host would execute. state says what it is like now.
func (s *scanner) report(file string, r rule, state string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.before == nil {
		s.now[file] = state
		return
	}
	was, known := s.before[file]
	if _, named := s.found[file]; !named && !(known && was == state) {
		s.found[file] = Finding{file, r.kind, r.why}
	}
}

// results are the findings. Of one kind no more than maxFindings are named.
func (s *scanner) results() (all []Finding) {
	found := slices.SortedFunc(maps.Values(s.found), compare)
	for len(found) > 0 {
		n := slices.IndexFunc(found, func(f Finding) bool { return f.Kind != found[0].Kind })
		if n < 0 {
			n = len(found)
		}
		if more := n - maxFindings; more > 0 {
			found[0].Why += fmt.Sprintf(" (%d more are like it, which are not named)", more)
		}
		all, found = append(all, found[:min(n, maxFindings)]...), found[n:]
	}
	return all
}
