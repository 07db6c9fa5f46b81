package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"forage"
	"forage/internal/probe"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/sandbox/plan"
	"forage/internal/unixsock"
)

// Proof is what was found inside a sandbox of one runtime.
type Proof struct {
	Runtime string         `json:"runtime"`
	Results []probe.Result `json:"results,omitempty"`
	// Rows are what the runtime says that it can enforce, where that can be tried.
	Rows    []RowProof `json:"rows,omitempty"`
	Skipped string     `json:"skipped,omitempty"` // why none was started
}

// RowProof holds what a runtime says of one row against what was found.
type RowProof struct {
	Name    string `json:"name"`
	Claimed bool   `json:"claimed"` // the runtime says that it is enforced here
	Held    bool   `json:"held"`    // all of its walls held
}

// Broken is the first wall that did not hold though it should have; "" is none. A wall of a row
// that the runtime doesn't claim may be missing.
func (p Proof) Broken() string {
	for _, r := range p.Results {
		if !r.Held && !p.unclaimed(r.Wall) {
			return r.Wall
		}
	}
	return ""
}

func (p Proof) unclaimed(wall string) bool {
	for _, row := range (runtime.Capabilities{}).Rows() {
		if slices.Contains(row.Walls, wall) {
			return slices.ContainsFunc(p.Rows, func(r RowProof) bool { return r.Name == row.Name && !r.Claimed })
		}
	}
	return false
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
		findings := rt.Check(ctx)
		if report := (Report{Findings: findings}); !report.Works() {
			proofs = append(proofs, Proof{Runtime: name, Skipped: "this host can't run it: see `forage-ctl doctor`"})
			continue
		}
		claimed := map[string]bool{}
		rows := rt.Info().Capabilities.Rows()
		for _, row := range rows {
			claimed[row.Name] = row.Active(findings)
		}
		results, err := s.prove(ctx, name, claimed)
		if err != nil {
			return nil, fmt.Errorf("proving %s: %w", name, err)
		}
		proof := Proof{Runtime: name, Results: results}
		for _, row := range rows {
			if held, tried := proved(row, results); tried {
				proof.Rows = append(proof.Rows, RowProof{row.Name, claimed[row.Name], held})
			}
		}
		proofs = append(proofs, proof)
	}
	return proofs, nil
}

// proved says whether all walls of a row held; tried is whether one was tried.
func proved(row runtime.Row, results []probe.Result) (held, tried bool) {
	held = true
	for _, r := range results {
		if slices.Contains(row.Walls, r.Wall) {
			held, tried = held && r.Held, true
		}
	}
	return held, tried
}

// proofLimits are small enough to be reached in a moment.
var proofLimits = map[string]func(*forage.Limits){
	"tasksMax":  func(l *forage.Limits) { l.TasksMax = 200 },
	"memoryMax": func(l *forage.Limits) { l.MemoryMax = 512 << 20 },
	"cpuQuota":  func(l *forage.Limits) { l.CPUQuota = 50 },
	"diskMax":   func(l *forage.Limits) { l.DiskMax = 64 << 20 },
}

// prove runs the probes, which are part of this program, in a sandbox that sees a workspace with a
// protected file, a folder with a socket of the host's, and this program's file. Of the limits it has
// those that the runtime claims.
func (s *Service) prove(ctx context.Context, runtimeName string, claimed map[string]bool) ([]probe.Result, error) {
	dir, err := os.MkdirTemp("", "forage-prove-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	workspace, sockets := filepath.Join(dir, "workspace"), filepath.Join(dir, "sockets")
	err = errors.Join(os.Mkdir(workspace, 0o700), os.Mkdir(sockets, 0o700), os.WriteFile(filepath.Join(workspace, ".envrc"), nil, 0o600))
	if err != nil {
		return nil, err
	}
	listener, err := unixsock.Listen(filepath.Join(sockets, "host"))
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if self, err = filepath.EvalSymlinks(self); err != nil {
		return nil, err
	}
	const inside, socketsInside = "/forage-probe", "/forage-sockets"
	quiet := *s
	quiet.Notify = func(string) {} // the result says what was refused
	own := *s.Host.Config
	own.Templates = maps.Clone(own.Templates)
	generic := own.Templates["generic"]
	generic.Env = nil // the probes would take it for the host's
	for name, set := range proofLimits {
		if claimed[name] {
			set(&generic.Limits)
		}
	}
	own.Templates["generic"], quiet.Host.Config = generic, &own
	promised := probe.Options{Environment: rootfs.Variables(), Limits: generic.Limits, Protected: forage.WorkspacePath + "/.envrc", Socket: socketsInside + "/host"}
	said, err := json.Marshal(promised)
	if err != nil {
		return nil, err
	}
	var out, errOut bytes.Buffer
	exit, err := quiet.Run(ctx, plan.Options{
		Template: "generic", Workspace: workspace, Runtime: runtimeName, Network: string(forage.NetworkNone),
		Mounts:  []string{self + ":" + inside + ":ro", sockets + ":" + socketsInside + ":ro"},
		Command: []string{inside, probe.Argument},
	}, Stdio{In: bytes.NewReader(said), Out: &out, Err: &errOut})
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
