package workspacetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"forage/internal/workspace"
)

// survivesCrash creates over what was left at several points of an earlier creation.
func survivesCrash(m *Made) {
	m.create()
	for _, missing := range []func() string{
		func() string { return m.Work.Repository.Dir },
		func() string { return filepath.Join(m.Work.Repository.Dir, "git", "HEAD") },
		func() string { return filepath.Join(m.Work.Path, "file.txt") },
		func() string { return m.Work.Path },
	} {
		if m.direct() && filepath.Dir(missing()) == m.Work.Path || missing() == m.Source {
			continue // the user's own
		}
		if err := os.RemoveAll(missing()); err != nil {
			m.Fatal(err)
		}
		if err := m.Create(m.Context(), m.Work); err != nil {
			m.Errorf("creating where %s of an earlier try is missing: %v", missing(), err)
			continue
		}
		if out, err := m.inside().Try("git status --porcelain || jj st"); err != nil || out != "" && !m.jj {
			m.Errorf("after creating where %s was missing: %v\n%s", missing(), err, out)
		}
	}
	m.remove(workspace.RemoveUnused)
	m.nothingLeft()
}

// forgetsWhatHadNotBegun: where a creation ends with no more than a folder, or an empty note in it, a sandbox of that name can be made.
func forgetsWhatHadNotBegun(m *Made) {
	m.plan()
	for _, note := range []string{"", "creating"} {
		if err := os.MkdirAll(m.Work.Repository.Dir, 0o700); err != nil {
			m.Fatal(err)
		}
		if note != "" {
			m.Write(m.Work.Repository.Dir, note, "")
		}
		m.remove(workspace.RemoveUnused)
		m.nothingLeft()
		m.plan()
	}
}

// undoesCancelled ends a creation at many points in time.
func undoesCancelled(m *Made) {
	m.plan()
	before := m.sourceState()
	if err := m.Create(cancelled(m.Context()), m.Work); err == nil && !m.direct() {
		m.Error("creating with a context that has ended did not fail")
		m.remove(workspace.RemoveUnused)
	}
	m.nothingLeft()
	for after := time.Millisecond; after < 200*time.Millisecond; after *= 2 {
		ctx, cancel := context.WithTimeout(m.Context(), after)
		err := m.Create(ctx, m.Work)
		cancel()
		if err == nil {
			break
		}
		m.nothingLeft()
		m.unchanged(before)
	}
	m.remove(workspace.RemoveUnused)
	m.nothingLeft()
	m.create()
}

// shares has several sandboxes on one repository, which commit and are brought up to date at once.
func shares(m *Made) {
	const sandboxes, commits = 4, 3
	made := make([]*Made, sandboxes)
	var wg sync.WaitGroup
	for n := range made {
		other := *m
		other.Request.Sandbox = fmt.Sprintf("box-%d", n)
		made[n] = &other
	}
	for n, other := range made {
		wg.Go(func() {
			w, err := other.Plan(m.Context(), other.Request)
			if err == nil {
				other.Work = w
				err = other.Create(m.Context(), w)
			}
			if err != nil {
				m.Errorf("sandbox %d: %v", n, err)
			}
		})
	}
	wg.Wait()
	if m.Failed() {
		return
	}
	for n, other := range made {
		i := other.inside()
		wg.Go(func() {
			for c := range commits {
				name := fmt.Sprintf("new-%d", c)
				if other.direct() { // one folder
					name = fmt.Sprintf("new-%d-%d", n, c)
				}
				add := "git add " + name + " && git commit -q -m " + name
				if m.jj {
					add = "jj --quiet commit -m " + name
				}
				if out, err := i.Try("set -e; echo new >" + name + "; " + add); err != nil {
					m.Errorf("sandbox %d: %v\n%s", n, err, out)
				}
				if _, err := other.Update(m.Context(), other.Work); err != nil {
					m.Errorf("sandbox %d: updating: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
	for n, other := range made {
		out, err := m.Try(other.Work.Repository.Store, "git", "--git-dir=.", "rev-list", "--count", other.Work.Base+".."+other.branch())
		if err != nil || out != fmt.Sprint(commits) {
			m.Errorf("sandbox %d brought %s commits, want %d (%v)", n, out, commits, err)
		}
	}
	m.Git(made[0].Work.Repository.Store, "--git-dir=.", "fsck", "--full")
}

// goesOnRemoving: a removal that is given up when it has begun is gone on with by the next one, which leaves nothing.
func goesOnRemoving(m *Made) {
	m.create()
	m.inside().Commit("new.txt", "new\n")
	m.update()
	m.Git(m.Work.Repository.Store, "--git-dir=.", "branch", "saved", m.branch())
	ctx := &untilThere{Context: context.Background(), path: filepath.Join(m.Work.Repository.Dir, "removing"), done: make(chan struct{})}
	kept, err := m.Remove(ctx, m.Work, workspace.RemoveSaved)
	if err != nil && ctx.Err() == nil || len(kept) > 0 { // that of a clone asks nobody, and comes to its end
		m.Errorf("the removal had not begun when it ended: kept %v, %v", kept, err)
	}
	m.remove(workspace.RemoveSaved)
	m.nothingLeft()
	if _, again := m.Plan(m.Context(), m.Request); again != nil {
		m.Errorf("planning another one of the same name, after a removal that ended with %v: %v", err, again)
	}
}

// untilThere is a context that ends when there is a file.
type untilThere struct {
	context.Context
	path string
	once sync.Once
	done chan struct{}
}

func (c *untilThere) Done() <-chan struct{} {
	if _, err := os.Lstat(c.path); err == nil {
		c.once.Do(func() { close(c.done) })
	}
	return c.done
}

func (c *untilThere) Err() error {
	select {
	case <-c.Done():
		return context.Canceled
	default:
		return nil
	}
}
