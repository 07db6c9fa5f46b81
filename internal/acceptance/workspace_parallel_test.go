package acceptance

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"forage/internal/testdir"
)

// committing is what an agent does until the deadline: commits, stashes, branches, tags, rebases
// and collects garbage. It prints how many commits it has made on its branch.
const committing = `
cd /workspace
n=0
end=$(($(date +%%s) + %d))
while [ "$(date +%%s)" -lt "$end" ] || [ $n -lt %d ]; do
	n=$((n + 1))
	echo "$n" >"file-$n" && %s || exit 1
done
echo "made $n"
`

// steps is one round of work with git, and with jj.
const (
	gitSteps20 = `git add -A && git commit -q -m "commit $n" && git tag "t$n" && echo x >>file.txt && git stash -q && git stash pop -q && git checkout -q -- file.txt &&
		git checkout -q -b "b$n" && git checkout -q - && { [ $((n % 3)) -ne 0 ] || git gc -q; }`
	jjSteps20 = `jj --quiet describe -m "commit $n" && jj --quiet new && jj --quiet undo && jj --quiet op log >/dev/null && jj --quiet new`
)

// TestWorkspacesTogether has sandboxes commit on one repository at once, while the user looks at
// them and works there as well.
func TestWorkspacesTogether(t *testing.T) {
	seconds, sandboxes := 2, 5
	if testdir.Soak() {
		seconds, sandboxes = 60, 20
	}
	for _, m := range modes() {
		if m.flag == "-w" || !testdir.Soak() && m.name != "git-worktree" {
			continue // one folder; the others are in a soak
		}
		t.Run(m.name, func(t *testing.T) { together(newHost(t), m, seconds, sandboxes) })
	}
}

func together(h *host, m mode, seconds, sandboxes int) {
	m.prepare(h)
	head := h.Git(h.repo, "rev-parse", "HEAD")
	steps, rounds := gitSteps20, 3
	if m.flag == "--repo" {
		steps, rounds = jjSteps20, 2 // each takes five runs of jj
	}
	each := func(what string, act func(name string) error) {
		h.Helper()
		var wg sync.WaitGroup
		for n := range sandboxes {
			wg.Go(func() {
				if err := act(fmt.Sprintf("box-%d", n)); err != nil {
					h.Errorf("%s of box-%d: %v", what, n, err)
				}
			})
		}
		wg.Wait()
		if h.Failed() {
			h.FailNow()
		}
	}
	each("up", func(name string) error {
		return failed(h.try(append(append([]string{"up", name, "-t", "box"}, m.flags(h.repo)...), "--", "sleep", "infinity")...))
	})
	made := make([]string, sandboxes)
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() { h.lookUntil(done) })
	each("committing", func(name string) error {
		out, err := h.try("exec", name, "--no-tty", "--", "sh", "-c", fmt.Sprintf(committing, seconds, rounds, steps))
		var n int
		fmt.Sscanf(name, "box-%d", &n)
		_, made[n], _ = strings.Cut(out, "made ")
		made[n], _, _ = strings.Cut(made[n], "\n") // what else it says is a note
		return failed(out, err)
	})
	close(done)
	looking.Wait()
	each("status", func(name string) error { return failed(h.try("status", name)) })
	all := 0
	for n := range sandboxes {
		h.brought(m, fmt.Sprintf("box-%d", n), head, made[n])
		one, _ := strconv.Atoi(made[n])
		all += one
	}
	h.Logf("%d commits in %d sandboxes", all, sandboxes)
	h.whole(m)
	each("down", func(name string) error { return failed(h.try("down", name, "--force")) })
	h.whole(m)
	if out := h.Git(h.repo, "worktree", "list"); strings.Contains(out, h.state) {
		h.Errorf("git worktree list shows\n%s", out)
	}
}

// failed is an error with what the program said.
func failed(out string, err error) error {
	if err != nil {
		return fmt.Errorf("%w\n%s", err, tail(out))
	}
	return nil
}

// lookUntil is the user, who looks, commits and cleans up meanwhile.
func (h *host) lookUntil(done chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-done:
			return
		case <-time.After(200 * time.Millisecond):
		}
		for _, args := range [][]string{{"status"}, {"branch", "-a"}, {"worktree", "list"}, {"commit", "--allow-empty", "-q", "-m", "the user"}, {"pack-refs", "--all"}} {
			if out, err := h.Try(h.repo, append([]string{"git"}, args...)...); err != nil {
				h.Errorf("meanwhile, git %q: %v\n%s", args, err, out)
			}
		}
		if out, err := h.try("diff", "box-1", "--stat"); err != nil {
			h.Errorf("meanwhile, diff: %v\n%s", err, out)
		}
	}
}

// brought checks that all commits of a sandbox are on its branch, or where they wait for apply.
func (h *host) brought(m mode, name, base, made string) {
	h.Helper()
	repo := h.repo
	if m.flag == "--clone" {
		repo = filepath.Join(h.state, "repositories", name, "main.store")
	}
	ref := "refs/heads/forage-" + name
	if m.flag == "--repo" { // jj doesn't look there
		ref = "refs/forage/tip/forage-" + name
	}
	out, err := h.Try(repo, "git", "rev-list", "--count", base+".."+ref)
	if err != nil || out != strings.TrimSpace(made) {
		h.Errorf("%s made %q commits, and its branch has %s (%v)", name, made, out, err)
	}
}

// whole checks the repository.
func (h *host) whole(m mode) {
	h.Helper()
	if out, err := h.Try(h.repo, "git", "fsck", "--full", "--strict", "--no-dangling"); err != nil || out != "" {
		h.Errorf("git fsck: %v\n%s", err, out)
	}
	if !m.jj {
		return
	}
	for _, args := range [][]string{{"st"}, {"log", "-r", "all()"}, {"op", "log"}, {"debug", "index"}, {"debug", "reindex"}} {
		if out, err := h.Try(h.repo, append([]string{"jj"}, args...)...); err != nil || strings.Contains(out, "concurrent") && strings.Contains(out, "stale") {
			h.Errorf("jj %q: %v\n%s", args, err, out)
		}
	}
}
