package main

import (
	"testing"
	"time"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/store"
)

func TestStateOfASandbox(t *testing.T) {
	three, yes := 3, true
	repository := store.Record{Plan: forage.Plan{Workspace: forage.Workspace{Repository: &forage.Repository{}}}}
	for want, s := range map[string]sandbox.Status{
		"stopped -": {Status: "stopped", AgentState: "working", Record: store.Record{WorkspaceMode: forage.WorkspaceDirect}},
		"running ?": {Status: "running", Record: repository},
		"waiting ?": {Status: "running", AgentState: "waiting", Record: repository},
		"ended 3 ?": {Status: "running", AgentState: "ended", ExitCode: &three, Record: repository},
		"ended yes": {Status: "running", AgentState: "ended", Unsaved: &yes},
	} {
		if got := state(s) + " " + unsaved(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAge(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 59 * time.Second: "59s", time.Minute: "1m", 59 * time.Minute: "59m", 47 * time.Hour: "47h", 48 * time.Hour: "2d",
	} {
		if got := age(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
