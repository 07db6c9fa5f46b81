// Package hazard finds what tools of the host would execute of the files in a workspace: hooks,
// configuration of git and of editors, settings of agents, .envrc, build scripts, links that lead out. It knows
// names and bytes, runs nothing, and judges nothing: what to do about a finding is the caller's to say.
package hazard

import "forage"

// Finding is one file that a tool of the host would execute, or be misled by.
type Finding struct {
	Path string `json:"path"` // relative to the workspace; comes from inside: escape it
	Kind Kind   `json:"kind"`
	Why  string `json:"why"` // "direnv executes it on cd"
}

// Kind says who would run it.
type Kind string

// The kinds of finding, worst first: the first two are met without the user's doing anything but go there.
const (
	KindRepository Kind = "repository" // a nested .git, a bare repository, a .git pointer: git executes its configuration
	KindShell      Kind = "shell"      // .envrc, .mise.toml and the like: on cd
	KindEditor     Kind = "editor"     // tasks and settings, on opening the folder
	KindAgent      Kind = "agent"      // settings, hooks and servers of coding agents
	KindHook       Kind = "hook"       // hooks that git is configured to find in the tree
	KindCI         Kind = "ci"         // workflows
	KindBuild      Kind = "build"      // Makefile, package.json scripts, build.rs, setup.py, ...
	KindExecutable Kind = "executable" // newly executable
	KindLink       Kind = "link"       // a symbolic link that leaves the tree
	KindSubmodule  Kind = "submodule"  // a new or changed gitlink, or .gitmodules
)

// Protected are the names at the root of a workspace that can't be changed from inside where a template does
// not say protect = false.
var Protected = []string{".envrc", ".vscode", ".idea", ".claude", ".codex", ".mcp.json", ".gitmodules"}

// Baseline is what of Scan was there when the sandbox was made, so that what is new or changed stands out.
type Baseline map[string]string // path: digest

// Scan looks through the folder root, which is hostile and may change meanwhile. Findings that are in
// baseline with the same content are left out.
func Scan(root string, baseline Baseline) ([]Finding, error) {
	return nil, forage.Errorf(forage.ErrUnsupported, "scanning is not in this version")
}

// Classify says what a file of a diff would be to tools of the host; ok is false for an ordinary file. newMode is
// its git mode after the change, oldMode before (0: not there), target a symbolic link's.
func Classify(path string, oldMode, newMode uint32, target string) (f Finding, ok bool) {
	return Finding{}, false
}
