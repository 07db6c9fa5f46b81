package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/probe"
	"forage/internal/sandbox/plan"
)

// Proof is what was found inside a sandbox of one runtime.
type Proof struct {
	Runtime string         `json:"runtime"`
	Results []probe.Result `json:"results,omitempty"`
	Skipped string         `json:"skipped,omitempty"` // why none was started
}

// Held says whether every wall held.
func (p Proof) Held() bool {
	return p.Skipped == "" && !slices.ContainsFunc(p.Results, func(r probe.Result) bool { return !r.Held })
}

// Prove starts a sandbox on every runtime that this host can run, attacks it
// from inside, and says which walls held.
func (s *Service) Prove(ctx context.Context) ([]Proof, error) {
	var proofs []Proof
	for _, name := range s.Host.Runtimes.Names() {
		rt, err := s.Host.Runtimes.New(name)
		if err != nil {
			return nil, err
		}
		if report := (Report{Findings: rt.Check(ctx)}); !report.Works() {
			proofs = append(proofs, Proof{Runtime: name, Skipped: "this host can't run it: see `forage-ctl doctor`"})
			continue
		}
		results, err := s.prove(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("proving %s: %w", name, err)
		}
		proofs = append(proofs, Proof{Runtime: name, Results: results})
	}
	return proofs, nil
}

// prove runs the probes, which are part of this program, in a sandbox that
// sees an empty workspace and this program's file.
func (s *Service) prove(ctx context.Context, runtimeName string) ([]probe.Result, error) {
	workspace, err := os.MkdirTemp("", "forage-prove-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(workspace)
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, err
	}
	const inside = "/forage-probe"
	var out, errOut bytes.Buffer
	quiet := *s
	quiet.Notify = func(string) {} // the result says what was refused
	own := *s.Host.Config
	own.Templates = maps.Clone(own.Templates)
	generic := own.Templates["generic"]
	generic.Env = nil // the probes would take it for the host's
	own.Templates["generic"], quiet.Host.Config = generic, &own
	exit, err := quiet.Run(ctx, plan.Options{
		Template: "generic", Workspace: workspace, Runtime: runtimeName, Network: string(forage.NetworkNone),
		Mounts:  []string{self + ":" + inside + ":ro"},
		Command: []string{inside, probe.Argument},
	}, Stdio{In: bytes.NewReader(nil), Out: &out, Err: &errOut})
	if err != nil {
		return nil, err
	}
	if exit != 0 {
		return nil, fmt.Errorf("the probes ended with exit code %d: %s", exit, errOut.String())
	}
	var results []probe.Result
	if err := json.NewDecoder(io.LimitReader(&out, 1<<20)).Decode(&results); err != nil {
		return nil, fmt.Errorf("reading what the probes found: %w", err)
	}
	return results, nil
}
