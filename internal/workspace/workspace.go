// Package workspace is the seam between a sandbox and the user's files: how
// what is mounted at /workspace comes to be, how what was done there comes back, and
// how it goes away without losing work. Each way is in a folder of its own; gitrepo and
// jjrepo hold what the host may do with repositories, and are the only places that
// start git and jj.
package workspace

import (
	"context"
	"path/filepath"
	"time"

	"forage"
)

// Provider makes, watches and removes one kind of workspace.
type Provider interface {
	// Plan resolves and checks what request asks for and decides everything, and
	// changes nothing. ErrUsage: there is no such thing. ErrRefused: it can't be
	// had without a loss, or the branch or folder is taken. ErrUnsupported: a repository
	// of a kind that can't be worked with, and why.
	Plan(ctx context.Context, request Request) (forage.Workspace, error)
	// Create makes what Plan decided. When it fails, what it made is undone. What a crash
	// left of an earlier try is no hindrance.
	Create(ctx context.Context, w forage.Workspace) error
	// Update brings the host's side up to date: the commits that were made inside, checked, to
	// Branch. It runs nothing that came from inside, and is safe beside a running sandbox.
	Update(ctx context.Context, w forage.Workspace) (Update, error)
	// Status says what of the work is nowhere but in the workspace and on its branch. It doesn't
	// update.
	Status(ctx context.Context, w forage.Workspace) (Status, error)
	// Remove takes away what Create made. What is absent is as good as removed.
	Remove(ctx context.Context, w forage.Workspace, how Removal) ([]Recovery, error)
}

// Removal says what Remove does about work that is nowhere else: see Status.
type Removal int

// The ways of removing.
const (
	RemoveSaved Removal = iota // refuses with ErrRefused when work would be lost, says which, and changes nothing
	// RemoveChecked is RemoveSaved for a caller to whom Status has just said that nothing would be
	// lost: it isn't asked again.
	RemoveChecked
	RemoveForced // keeps that work for RecoveryKept, and says where
	// RemoveButBranch is for the end of a run: Branch stays while it has commits that nothing else
	// has, and the rest is kept as with RemoveForced. The Recovery of a branch that stays has its
	// full name as Ref.
	RemoveButBranch
	// RemoveUnused is for a creation that was interrupted before anything ran inside: there is no
	// work to look for.
	RemoveUnused
)

// Request is what Plan needs.
type Request struct {
	Sandbox  string // its name
	Name     string // of the part: "main" but in a composed workspace
	Path     string // the user's folder or repository, absolute; for a clone it may be a URL
	Target   string // inside
	Branch   string // start from this branch or revision instead of HEAD; "" is HEAD
	ReadOnly bool
	Home     string   // the caller's home folder
	Ours     []string // Forage's own folders, which no sandbox may see
	Places   Places
	// Existing is the same sandbox's workspace as it was planned before; nil: there is
	// none. What it made is no obstacle then, and its base is kept.
	Existing *forage.Workspace
}

// Places are the folders in which workspaces are made. They needn't exist.
type Places struct {
	Trees        string // working folders: TREES/SANDBOX, and TREES/SANDBOX.PART
	Repositories string // private metadata: REPOSITORIES/SANDBOX/PART
	Snapshots    string // see package snapshot
	Scratch      string // what lives no longer than a call
}

// PlacesIn are the places below a state folder and a run-time folder.
func PlacesIn(state, runtime string) Places {
	return Places{
		Trees:        filepath.Join(state, "workspaces"),
		Repositories: filepath.Join(state, "repositories"),
		Snapshots:    filepath.Join(state, "snapshots"),
		Scratch:      filepath.Join(runtime, ".scratch"),
	}
}

// Tree is where the working folder of a part of a sandbox's workspace is made.
func (p Places) Tree(sandbox, part string) string {
	if part == Main {
		return filepath.Join(p.Trees, sandbox)
	}
	return filepath.Join(p.Trees, sandbox+"."+part)
}

// Repository is where the private metadata of a part is made.
func (p Places) Repository(sandbox, part string) string {
	return filepath.Join(p.Repositories, sandbox, part)
}

// Recovery is the folder for what is kept of removed sandboxes while it can be recovered.
func (p Places) Recovery() string { return filepath.Join(p.Repositories, recoveryFolder) }

// Kept is a path in Recovery for what was removed of a sandbox at a time; the name ends with what
// it is.
func (p Places) Kept(sandbox string, at time.Time, what string) string {
	return filepath.Join(p.Recovery(), sandbox+"."+at.UTC().Format("20060102T150405.000000000Z")+"."+what)
}

const recoveryFolder = ".recovery"

// IsKept says whether path is one that Kept returned.
func IsKept(path string) bool { return filepath.Base(filepath.Dir(path)) == recoveryFolder }

// Main is the name of a workspace's only, or first, part.
const Main = "main"

// BranchPrefix is what the branches that Forage makes begin with: forage-SANDBOX.
const BranchPrefix = "forage-"

// RecoveryKept is how long removed work can be recovered.
const RecoveryKept = 30 * 24 * time.Hour

// Commit is a commit as people are shown it. Subject comes from inside: escape it.
type Commit struct {
	ID      string `json:"id"`
	Subject string `json:"subject"`
}

// Update is what Provider.Update did.
type Update struct {
	// Before and After are where Branch was and is, in hex; equal when there was nothing to do.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

// Status is the work in a workspace that would be lost with it.
type Status struct {
	// Uncommitted are files with changes that no commit has, relative to the workspace, at most
	// MaxListed; UncommittedCount is how many there are. Of the user's own folder: what is only
	// staged.
	Uncommitted      []string `json:"uncommitted,omitempty"`
	UncommittedCount int      `json:"uncommittedCount,omitempty"`
	// Commits are on no branch, tag or remote of the host's repository but Branch: newest first, at
	// most MaxListed.
	Commits      []Commit `json:"commits,omitempty"`
	CommitsCount int      `json:"commitsCount,omitempty"`
	// Submodules are those of the user's own folder, relative to it, on whose Branch some of
	// Commits are; InSubmodules is how many.
	Submodules   []string `json:"submodules,omitempty"`
	InSubmodules int      `json:"inSubmodules,omitempty"`
	// Elsewhere are refs of the private metadata (other branches, stashes, tags) with commits that
	// the host's repository does not have at all.
	Elsewhere []string `json:"elsewhere,omitempty"`
	// Apart is what is checked out inside, a branch or a commit, if it does not go on from the
	// sandbox's own branch, so that Branch does not follow it. Merge is a branch, or commit, inside
	// that, merged there, has commits of Elsewhere come to Branch.
	Apart string `json:"apart,omitempty"`
	Merge string `json:"merge,omitempty"`
	// Problem says why one of these is not known or can't be brought to the host: the repository
	// has moved, the branch was changed on the host. The work is then treated as unsaved.
	Problem string `json:"problem,omitempty"`
}

// MaxListed bounds the lists of Status.
const MaxListed = 50

// Unsaved says whether anything would be lost.
func (s Status) Unsaved() bool {
	return s.UncommittedCount > 0 || s.CommitsCount > 0 || len(s.Elsewhere) > 0 || s.Problem != ""
}

// Recovery is removed work that is kept for RecoveryKept.
type Recovery struct {
	Sandbox string    `json:"sandbox"`
	Store   string    `json:"store,omitempty"` // git directory that has Ref
	Ref     string    `json:"ref,omitempty"`
	Folder  string    `json:"folder,omitempty"` // or a folder, where there is no repository to keep it
	Made    time.Time `json:"made"`
	// Left is a removed worktree of a repository that was gone, and that still lists it: see
	// gitrepo.StillListed.
	Left *forage.Workspace `json:"left,omitempty"`
}
