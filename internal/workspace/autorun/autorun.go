// Package autorun finds what tools of the host would execute of the files in a workspace: hooks,
// configuration of git and of editors, settings of agents, .envrc, build scripts, links that lead out. It knows
// names and bytes, runs nothing, and judges nothing: what to do about a finding is the caller's to say.
//
// A name is all that can be known: that .envrc is there says that direnv would execute it, not that what it does is
// bad. Not found is what no tool executes by its name: a changed line of a program that the user runs later.
package autorun

import (
	"cmp"
	"slices"
)

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
	KindRepository Kind = "repository"   // a nested .git, a bare repository, a .git pointer: git executes its configuration
	KindShell      Kind = "shell"        // .envrc, .mise.toml and the like: on cd
	KindEditor     Kind = "editor"       // tasks and settings, on opening the folder
	KindAgent      Kind = "agent"        // settings, hooks and servers of coding agents
	KindHook       Kind = "hook"         // hooks that git is configured to find in the tree
	KindUnseen     Kind = "unseen"       // a folder that could not be looked through
	KindLink       Kind = "link"         // a symbolic link that leaves the tree
	KindSubmodule  Kind = "submodule"    // a new or changed gitlink, or .gitmodules
	KindInstruct   Kind = "instructions" // CLAUDE.md and the like: what coding agents follow
	KindBuild      Kind = "build"        // Makefile, package.json scripts, build.rs, setup.py, ...
	KindCI         Kind = "ci"           // workflows
	KindExecutable Kind = "executable"   // newly executable
)

var worstFirst = []Kind{
	KindRepository, KindShell, KindEditor, KindAgent, KindHook, KindUnseen, KindLink, KindSubmodule, KindInstruct, KindBuild, KindCI, KindExecutable,
}

// Immediate says whether a finding of this kind takes no more than to go to the folder, to open it in an editor, or to ask git for its status.
func (k Kind) Immediate() bool {
	at := slices.Index(worstFirst, k)
	return at >= 0 && at <= slices.Index(worstFirst, KindUnseen)
}

// Protected are the names at the root of a workspace that can't be changed from inside where a template does
// not say protect = false.
var Protected = []string{".envrc", ".vscode", ".idea", ".claude", ".codex", ".mcp.json", ".gitmodules"}

// Sort puts the worst first, and the same kind in the order of paths.
func Sort(findings []Finding) { slices.SortFunc(findings, compare) }

func compare(a, b Finding) int {
	return cmp.Or(slices.Index(worstFirst, a.Kind)-slices.Index(worstFirst, b.Kind), cmp.Compare(a.Path, b.Path))
}
