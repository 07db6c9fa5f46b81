package workspacetest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/testdir"
	"forage/internal/workspace"
)

// odd runs the provider on every odd repository: it works, or it is refused and there is no trace of that.
func (s Subject) odd(t *testing.T) {
	providers := 3
	if s.JJ {
		providers = 2
	}
	for i, odd := range Odds() {
		if s.JJ != odd.JJ || !testdir.Soak() && i%providers != s.Turn {
			continue
		}
		t.Run(odd.Name, func(t *testing.T) {
			t.Parallel()
			u := NewUser(t)
			s.oddly(u, odd)
		})
	}
}

// oddly makes a workspace of one odd repository, commits in it, and removes it.
func (s Subject) oddly(u *User, odd Odd) {
	m := s.prepare(u, odd.Make(u, Dir(u)), "box")
	before := m.sourceState()
	w, err := m.Plan(m.Context(), m.Request)
	if err != nil {
		m.politely(err, before, odd.Rare || s.Refuses != nil && s.Refuses(odd.Name))
		return
	}
	if odd.Rare {
		m.Error("it is not refused")
	}
	m.Work = w
	if err := m.Create(m.Context(), w); err != nil {
		m.Errorf("it was planned, and could not be made: %v", err)
		return
	}
	m.unchanged(before)
	i := m.inside()
	i.Commit("docs/new.txt", "from inside\n")
	if got := m.update(); got.After == "" || m.show(got.After, "docs/new.txt") != "from inside" {
		m.Errorf("the update is %+v", got)
	}
	if !s.JJ {
		if out := i.Run("git status --porcelain"); out != "" && !m.direct() {
			m.Errorf("after a commit of everything git status shows\n%s", out)
		}
		i.Run("git fsck --full")
	}
	if !m.direct() {
		m.unchanged(before)
	}
	m.remove(workspace.RemoveForced)
	if !m.direct() {
		m.unchanged(before)
		m.nothingLeft()
	}
}

// politely checks a refusal: it is one, it may be, and nothing was made.
func (m *Made) politely(err error, before string, allowed bool) {
	m.Helper()
	if !allowed {
		m.Errorf("it is refused: %v", err)
	}
	if !errors.Is(err, forage.ErrRefused) && !errors.Is(err, forage.ErrUnsupported) && !errors.Is(err, forage.ErrUsage) {
		m.Errorf("planning fails, and is not a refusal: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(m.Places.Trees)); err == nil {
		m.Error("a refused plan made something")
	}
	m.unchanged(before)
	m.Logf("refused: %v", err)
}
