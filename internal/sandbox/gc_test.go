package sandbox

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"forage"
	"forage/internal/config"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/testdir"
	"forage/internal/workspace"
)

func testService(t *testing.T) *Service {
	t.Helper()
	dir := t.TempDir()
	places := store.Places{State: filepath.Join(dir, "state"), Runtime: filepath.Join(dir, "run")}
	records, err := store.Open(places.State)
	testdir.Must(t, err)
	host := &plan.Host{
		Config: &config.Config{}, Store: records, Places: supervisor.Places{Places: places}, Runtimes: supervisor.Runtimes{Dir: places.Runtime},
		Workspaces: supervisor.Workspaces{Places: workspace.PlacesIn(places.State, places.Runtime)},
	}
	return newService(host, Config{})
}

// running puts a sandbox on record that this test is the supervisor of. end is what a supervisor
// does last. The record takes long to read, so that it is being read when it changes.
func running(t *testing.T, s *Service) (record store.Record, end func()) {
	t.Helper()
	testdir.Must(t, s.Host.Places.MakeRuntime())
	lock, err := supervisor.Acquire(s.Host.Places.Of("box").Dir)
	testdir.Must(t, err)
	record, err = s.Host.Store.Create(t.Context(), store.Record{
		Name: "box", Template: strings.Repeat("x", 4<<20), Runtime: "native", Phase: forage.PhaseRunning,
	}, store.Ports{})
	testdir.Must(t, err)
	return record, func() {
		ended := record
		ended.Phase, ended.Reason = forage.PhaseStopped, "it was asked to stop"
		if err := errors.Join(s.Host.Store.Save(ended), lock.Release()); err != nil {
			t.Error(err)
		}
	}
}

// Nor has gc something to do about it.
func TestGCWhileOneEnds(t *testing.T) {
	rounds := 5
	if testdir.Soak() {
		rounds = 50
	}
	for range rounds {
		s := testService(t)
		_, end := running(t, s)
		var ending sync.WaitGroup
		ending.Go(end)
		actions, err := s.GC(t.Context(), true)
		ending.Wait()
		if err != nil || len(actions) > 0 {
			t.Fatalf("gc would do %v, %v", actions, err)
		}
	}
}

// What is shown as a status is one of four words, also of a sandbox that is on its way out.
func TestRemovedIsShownAsStopped(t *testing.T) {
	s := testService(t)
	if _, err := s.Host.Store.Create(t.Context(), store.Record{Name: "box", Runtime: "native", Phase: forage.PhaseRemoving}, store.Ports{}); err != nil {
		t.Fatal(err)
	}
	all, err := s.List(t.Context())
	if err != nil || len(all) != 1 {
		t.Fatalf("%d sandboxes, %v", len(all), err)
	}
	if all[0].Status != string(forage.PhaseStopped) || all[0].Reason == "" || all[0].Phase != forage.PhaseRemoving {
		t.Errorf("it is shown as %q (%s), in the phase %s", all[0].Status, all[0].Reason, all[0].Phase)
	}
}

// What a rehearsal says was not done.
func TestARehearsalSaysWould(t *testing.T) {
	s := testService(t)
	orphan := filepath.Join(s.Host.Places.Runtime, "orphan")
	testdir.Must(t, os.MkdirAll(orphan, 0o700))
	for _, dryRun := range []bool{true, false} {
		actions, err := s.GC(t.Context(), dryRun)
		if err != nil || len(actions) != 1 || strings.HasPrefix(actions[0].What, "would have removed ") != dryRun || strings.HasPrefix(actions[0].What, "removed ") == dryRun {
			t.Errorf("rehearsal %v: %+v, %v", dryRun, actions, err)
		}
	}
}
