// Package skills writes what an agent is told of its sandbox: one short text, made from the plan,
// the live network policy and the files of the project. It is not for rules: nothing is enforced by
// what an agent reads.
package skills

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"forage"
)

// Name is what the text is called, in the folder .claude of the home inside.
const Name = "forage-skills.md"

// Facts are what the text is made from.
type Facts struct {
	Plan    forage.Plan
	Network forage.Network // as it is now
	Project Project
	// Has says whether the sandbox has a command; nil: that is not known.
	Has func(command string) bool
	Own []string // the user's own skills
}

// maxList is how many hosts, paths or tools are listed.
const maxList = 40

// tools are commands that agents look for.
var tools = []string{
	"git", "jj", "make", "rg", "fd", "jq", "curl", "wget", "tmux", "gcc", "clang", "cmake", "go", "cargo", "rustc", "node", "npm", "pnpm",
	"yarn", "bun", "deno", "python3", "pip", "uv", "poetry", "ruby", "bundle", "java", "mvn", "gradle", "php", "nix", "gh", "sqlite3",
}

// Text is what the agent is told: of the project, of the sandbox, the template's own words, and the
// user's.
func Text(f Facts) []byte {
	var b bytes.Buffer
	w := writer{&b}
	w.line("# You work in a Firefly Forage sandbox")
	w.line("")
	w.line("Its name is %s. This page was written when it started. The sandbox is the permission: work without asking, and", f.Plan.Name)
	w.line("say what you could not do. The project's own instructions go before this page.")
	w.project(f.Project)
	for i, workspace := range f.Plan.Workspaces() {
		w.workspace(f.Plan, workspace, i == 0)
	}
	if len(f.Plan.Spec.Protect) > 0 {
		w.item("Read-only if they were there at the start, since the user's tools execute them: %s. Propose changes in words.", list(f.Plan.Spec.Protect))
	}
	w.section("Tools", "")
	var there, missing []string
	for _, name := range tools {
		if f.Has == nil {
			break
		}
		if f.Has(name) {
			there = append(there, name)
		} else {
			missing = append(missing, name)
		}
	}
	if len(there) > 0 {
		w.item("There: %s.", list(there))
		w.item("Not there: %s.", list(missing))
	}
	w.item("You are the user `%s`, never root. `sudo`, `apt` and the like do not work. `/usr` and `/etc` are read-only.", f.Plan.Spec.Identity.User)
	w.item("Install into the project (`node_modules`, a virtual environment) or the home. For a system package, ask the user.")
	if !f.Plan.Spec.Security.NestedNamespaces {
		w.item("Containers and sandboxes of your own do not work. Neither does another sandbox option of a tool: switch it off.")
	}
	w.network(f)
	w.limits(f.Plan)
	w.refused(f.Plan, f.Network.Mode)
	w.lasts(f.Plan)
	asked := f.Plan.Skills
	if asked.JJ || slices.ContainsFunc(f.Plan.Workspaces(), func(p forage.Workspace) bool { return isJJ(p) }) {
		w.section("jj", jjText)
	}
	if asked.Nix || f.Project.Nix && f.Has != nil && f.Has("nix") {
		w.section("Nix", nixText)
	}
	if asked.Custom != "" {
		w.section("From the template", strings.TrimSpace(asked.Custom))
	}
	for _, own := range f.Own {
		w.section("From the user", own)
	}
	return b.Bytes()
}

type writer struct{ b *bytes.Buffer }

func (w writer) line(format string, args ...any) { fmt.Fprintf(w.b, format+"\n", args...) }

func (w writer) item(format string, args ...any) { w.line("- "+format, args...) }

func (w writer) section(title, text string) {
	w.line("\n## %s\n", title)
	if text != "" {
		w.line("%s", text)
	}
}

// list is names in one line, as code, the first of them if there are many.
func list(names []string) string {
	more := ""
	if len(names) > maxList {
		more = fmt.Sprintf(" and %d more", len(names)-maxList)
		names = names[:maxList]
	}
	return "`" + strings.Join(names, "`, `") + "`" + more
}

func (w writer) project(p Project) {
	if len(p.Own)+len(p.Languages)+len(p.Make) == 0 {
		return
	}
	w.section("The project", "")
	if len(p.Own) > 0 {
		w.item("Its own instructions go first: %s.", list(p.Own))
	}
	if len(p.Languages) > 0 {
		w.item("Languages: %s.", strings.Join(p.Languages, ", "))
	}
	if len(p.Build) > 0 {
		w.item("Build: %s.", list(p.Build))
	}
	if len(p.Test) > 0 {
		w.item("Test: %s.", list(p.Test))
	}
	if len(p.Make) > 0 {
		w.item("`make` targets: %s.", list(p.Make))
	}
	if len(p.Scripts) > 0 {
		w.item("`%s run` scripts: %s.", p.Runner, list(p.Scripts))
	}
}

func isJJ(p forage.Workspace) bool {
	return p.Mode == forage.WorkspaceJJ || p.Repository != nil && p.Repository.Kind == forage.RepositoryJJ
}

// workspace says where the work is and how it reaches the user.
func (w writer) workspace(plan forage.Plan, p forage.Workspace, main bool) {
	title, at := "Your work", forage.WorkspacePath
	if !main {
		title, at = "The part "+p.Name, p.Target
	}
	w.section(title, "")
	switch p.Mode {
	case forage.WorkspaceDirect:
		w.item("`%s` is the user's own folder. A file that you change is changed for the user at once.", at)
	case forage.WorkspaceWorktree:
		w.item("`%s` is a git worktree of the user's repository, made for you. The user's own files do not change.", at)
	case forage.WorkspaceJJ:
		w.item("`%s` is a jj workspace of the user's repository, made for you. The user's own files do not change.", at)
	case forage.WorkspaceClone:
		w.item("`%s` is a git clone, made for you.", at)
	default:
		w.item("`%s` is a copy of the user's folder. The user's own files do not change.", at)
	}
	if dir := plan.Spec.Dir; main && dir != "" && dir != at {
		w.item("`%s`, where you start, is the same folder, at its path on the user's machine.", dir)
	}
	if p.ReadOnly {
		w.item("It is read-only. Write to `/tmp`, and answer with what you found.")
	}
	if p.Repository == nil {
		w.item("It has no repository: the files are the result.")
		return
	}
	kind, come := "git", fmt.Sprintf("Your commits come to the user as the branch `%s`.", p.Branch)
	if isJJ(p) {
		kind, come = "jj", "Your commits come to the user once the working copy has a description, or others are based on them."
	}
	w.item("Use %s as usual: commit, rebase, undo. Hooks and %s configuration that you make stay in the sandbox.", kind, kind)
	if p.Base != "" {
		w.item("The work starts from commit `%.12s`. The user's branches are as they were then.", p.Base)
		if p.Mode == forage.WorkspaceWorktree && kind == "git" {
			w.item("`git fetch host` has the user's branches as they are now, as `host/BRANCH`. It needs no network.")
		}
	}
	if p.Branch != "" && p.Mode == forage.WorkspaceDirect {
		w.item("%s", come)
	} else if p.Branch != "" {
		w.item("Commit what is to stay. %s", come)
		w.item("The user looks at the work with `forage-ctl diff %s` and takes it with `forage-ctl apply %s`.", plan.Name, plan.Name)
		w.item("Go on from the commit that you found. A branch of your own is fine; an unrelated history does not reach the user.")
	}
	w.item("Do not push, unless you were asked to.")
}

func (w writer) network(f Facts) {
	w.section("Network", "")
	n := f.Network
	switch n.Mode {
	case forage.NetworkFull:
		w.item("Mode `full`: any public host over TCP. Not the user's machine, not the local network.")
	case forage.NetworkRestricted:
		if len(n.Allow) == 0 {
			w.item("Mode `restricted`, and no host is allowed.")
		} else {
			w.item("Mode `restricted`. Allowed hosts: %s. Every other host is refused.", list(n.Allow))
		}
	default:
		w.item("Mode `none`: there is no network.")
	}
	if len(n.Rules) > 0 {
		w.item("Some hosts have rules for methods, paths or git. A refusal of theirs says which.")
	}
	if len(f.Plan.Secrets) > 0 {
		w.item("Keys are placeholders. Forage puts the real ones into requests on the way out: use them as they are.")
	}
	w.item("A refused name is not found, a refused connection is reset, and the proxy answers 403 with the reason.")
	w.item("Servers of your own on `localhost` work.")
	if !f.Plan.Ephemeral {
		w.item("The user may change this at any time. Try the request to see how it is now; `forage-ctl network %s` tells the user.", f.Plan.Name)
	}
}

func (w writer) limits(plan forage.Plan) {
	var texts []string
	add := func(is bool, format string, args ...any) {
		if is {
			texts = append(texts, fmt.Sprintf(format, args...))
		}
	}
	l, t := plan.Spec.Limits, plan.Traffic
	add(l.CPUQuota > 0, "%d%% of one processor", l.CPUQuota)
	add(l.MemoryMax > 0, "%d MiB of memory", l.MemoryMax>>20)
	add(l.TasksMax > 0, "%d processes and threads", l.TasksMax)
	add(l.DiskMax > 0, "%d MiB outside of the workspace", l.DiskMax>>20)
	add(l.WallClock > 0, "it ends after %v", l.WallClock)
	add(t.RequestsPerMinute > 0, "%d requests a minute", t.RequestsPerMinute)
	add(t.BytesMax > 0, "%d MiB over the network", t.BytesMax>>20)
	add(t.ConnectionsMax > 0, "%d connections at a time", t.ConnectionsMax)
	add(t.MaxTokens > 0, "%d tokens", t.MaxTokens)
	add(t.MaxCost > 0, "$%g of tokens", t.MaxCost)
	if len(texts) > 0 {
		w.section("Limits", strings.Join(texts, "; ")+".")
	}
}

// refused says what to tell the user.
func (w writer) refused(plan forage.Plan, mode forage.NetworkMode) {
	w.section("When something is refused", "")
	w.item("Do not try again and again, and do not look for a way around. Do what you can without it.")
	w.item("Then tell the user what was refused, why you need it, and the command. A package registry has a name that can stand")
	w.line("  for HOST: `@npm`, `@pypi`, `@go`, `@cargo`, `@maven`, `@rubygems`.")
	if plan.Ephemeral {
		w.item("For a host: the same `forage-ctl run` with `--allow HOST`.")
		w.item("For a folder of the user's machine: the same `forage-ctl run` with `--mount PATH:PLACE:ro`.")
		return
	}
	w.item("For a host: `forage-ctl network %s --allow HOST`, which takes effect at once. `--allow-last` is what was refused last.", plan.Name)
	if mode != forage.NetworkRestricted && mode != forage.NetworkFull {
		w.item("Where there is no network: `forage-ctl network %s restricted --allow HOST`.", plan.Name)
	}
	w.item("For a folder of the user's machine: a new sandbox, `forage-ctl up NAME --mount PATH:PLACE:ro`.")
}

func (w writer) lasts(plan forage.Plan) {
	w.section("What lasts", "")
	home := plan.Spec.Identity.Home
	w.item("`%s` lasts.", forage.WorkspacePath)
	for _, mount := range plan.Spec.Mounts {
		if mount.Volume {
			w.item("`%s` is a named volume. It lasts, and other sandboxes may use it too.", mount.Target)
			continue
		}
		if mount.Writable && !mount.System && !mount.Layered && !slices.ContainsFunc(plan.Workspaces(), func(p forage.Workspace) bool { return p.Target == mount.Target }) &&
			!strings.HasPrefix(mount.Target, forage.RepositoriesPath) && path.Base(mount.Target) != ".git" && path.Base(mount.Target) != ".jj" {
			w.item("`%s` is a folder of the user's, and lasts.", mount.Target)
		}
	}
	if plan.Ephemeral {
		w.item("All else vanishes when the command ends, `%s` too.", home)
		return
	}
	if plan.Spec.KeptHome == "" {
		w.item("All else (`%s`, `/tmp`) vanishes when the sandbox stops.", home)
		return
	}
	w.item("`%s` outlives stop and start. `forage-ctl reset %s` empties it, `forage-ctl down %s` removes it.", home, plan.Name, plan.Name)
	w.item("All else (`/tmp`, processes) vanishes when the sandbox stops.")
}

const jjText = `- ` + "`jj st`, `jj log` and `jj diff` show where you are. The working copy is a commit: there is nothing to add." + `
- ` + "`jj describe -m TEXT` names it, and `jj new` begins the next one. `jj squash` moves changes into the parent." + `
- ` + "`jj undo` takes back any operation. Do not use `git commit` or `git rebase` in a jj repository."

const nixText = `- ` + "`nix develop -c COMMAND` runs a command with the project's tools; `nix flake check` tests, `nix build` builds." + `
- ` + "The store is read-only unless a daemon is there. What has to be fetched needs its host in the network's list."
