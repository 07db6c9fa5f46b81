package sandbox

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/supervisor"
	"forage/internal/testgit"
	"forage/internal/workspace"
)

// A look that takes too long is given up, and counts as work that may be lost.
func TestWorkIsLookedForWithPatience(t *testing.T) {
	repository := testgit.Init(t, t.TempDir())
	repository.Commit("a", "one\n")
	state := t.TempDir()
	s := &Service{Workspaces: supervisor.Workspaces{Places: workspace.PlacesIn(state, filepath.Join(state, "run"))}}
	provider, err := s.Workspaces.New(forage.WorkspaceWorktree)
	if err != nil {
		t.Fatal(err)
	}
	w, err := provider.Plan(t.Context(), workspace.Request{
		Sandbox: "box", Name: workspace.Main, Path: repository.Dir, Target: "/workspace", Places: s.Workspaces.Places,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := provider.Create(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	for patience, want := range map[time.Duration]string{time.Nanosecond: "looking took longer than 1ns", savePatience: ""} {
		got := s.work(t.Context(), patience, []forage.Workspace{w})[0]
		if got.Unsaved != (want != "") || want != "" && !strings.Contains(got.Problem, want) {
			t.Errorf("with patience for %v: %+v", patience, got)
		}
	}
	interrupted := errors.New("interrupted")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted)
	if err := s.nothingUnsaved(ctx, "box", []forage.Workspace{w}); err != interrupted {
		t.Errorf("of a look that the caller gives up it is said: %v", err)
	}
}
