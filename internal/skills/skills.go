// Package skills writes what an agent is told of its sandbox: one short text, made from the plan,
// the live network policy and the files of the project. It is not for rules: nothing is enforced by
// what an agent reads.
package skills

import (
	"bytes"
	_ "embed" // for the page
	"fmt"
	"os"
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

// page is what the agent is told. A line that begins with facts in brackets is there if they hold,
// "!" before one means that it does not. ${fact} is what a fact says.
//
//go:embed page.md
var page string

// Text is what the agent is told: of the project, of the sandbox, the template's own words, and the
// user's.
func Text(f Facts) []byte {
	plan, project, asked := f.Plan, f.Project, f.Plan.Skills
	var there, missing []string
	for _, name := range tools {
		if f.Has != nil && f.Has(name) {
			there = append(there, name)
		} else {
			missing = append(missing, name)
		}
	}
	said := facts{
		"name": plan.Name, "user": plan.Spec.Identity.User, "home": plan.Spec.Identity.Home, "kept": plan.Spec.KeptHome,
		"own": list(project.Own), "languages": strings.Join(project.Languages, ", "), "build": list(project.Build), "test": list(project.Test),
		"make": list(project.Make), "scripts": list(project.Scripts), "runner": project.Runner,
		"project": yes(len(project.Own)+len(project.Languages)+len(project.Make) > 0),
		"protect": list(plan.Spec.Protect), "there": list(there), "missing": list(missing), "nested": yes(plan.Spec.Security.NestedNamespaces),
		string(f.Network.Mode): "yes", "allow": list(f.Network.Allow), "rules": yes(len(f.Network.Rules) > 0),
		"secrets": yes(len(plan.Secrets) > 0), "run": yes(plan.Ephemeral), "limits": strings.Join(limits(plan), "; "),
		"jjtext":  yes(asked.JJ || slices.ContainsFunc(plan.Workspaces(), isJJ)),
		"nixtext": yes(asked.Nix || project.Nix && slices.Contains(there, "nix")), "custom": strings.TrimSpace(asked.Custom),
	}
	var b bytes.Buffer
	parts := strings.SplitAfter(page, "---\n")
	said.write(&b, parts[0])
	for i, w := range plan.Workspaces() {
		of := facts{"name": plan.Name, "at": w.Target, "part": w.Name, string(w.Mode): "yes", "readonly": yes(w.ReadOnly)}
		if i == 0 {
			of["main"], of["at"] = "yes", forage.WorkspacePath
			if plan.Spec.Dir != forage.WorkspacePath {
				of["elsewhere"] = plan.Spec.Dir
			}
		}
		if w.Repository != nil {
			of["kind"], of["base"], of["branch"] = "git", fmt.Sprintf("%.12s", w.Base), w.Branch
			if isJJ(w) {
				of["kind"], of["isjj"] = "jj", "yes"
			}
		}
		of.write(&b, parts[1])
	}
	said.write(&b, parts[2])
	for _, m := range plan.Spec.Mounts {
		isPart := func(p forage.Workspace) bool { return p.Target == m.Target }
		folder := m.Writable && !m.Volume && !m.System && !m.Layered && !slices.ContainsFunc(plan.Workspaces(), isPart) &&
			!strings.HasPrefix(m.Target, forage.RepositoriesPath) && path.Base(m.Target) != ".git" && path.Base(m.Target) != ".jj"
		facts{"target": m.Target, "volume": yes(m.Volume), "folder": yes(folder)}.write(&b, parts[3])
	}
	said.write(&b, parts[4])
	for _, own := range f.Own {
		facts{"skill": own}.write(&b, parts[5])
	}
	return b.Bytes()
}

// facts are what the page is filled with; "" does not hold.
type facts map[string]string

func (f facts) write(b *bytes.Buffer, part string) {
	for line := range strings.Lines(strings.TrimSuffix(part, "---\n")) {
		if rest, ok := strings.CutPrefix(line, "["); ok {
			conditions, text, _ := strings.Cut(rest, "]")
			fails := func(condition string) bool {
				fact, negated := strings.CutPrefix(condition, "!")
				return (f[fact] != "") == negated
			}
			if line = text; slices.ContainsFunc(strings.Fields(conditions), fails) {
				continue
			}
		}
		b.WriteString(os.Expand(line, func(fact string) string { return f[fact] }))
	}
}

func yes(is bool) string {
	if is {
		return "yes"
	}
	return ""
}

// list is names in one line, as code, the first of them if there are many.
func list(names []string) string {
	if len(names) == 0 {
		return ""
	}
	more := ""
	if len(names) > maxList {
		more = fmt.Sprintf(" and %d more", len(names)-maxList)
		names = names[:maxList]
	}
	return "`" + strings.Join(names, "`, `") + "`" + more
}

func isJJ(p forage.Workspace) bool {
	return p.Mode == forage.WorkspaceJJ || p.Repository != nil && p.Repository.Kind == forage.RepositoryJJ
}

func limits(plan forage.Plan) (texts []string) {
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
	return texts
}
