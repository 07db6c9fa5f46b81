package sandbox

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"forage"
	"forage/internal/workspace/jjrepo"
)

// usesJJ says whether a part of the workspace is worked on with jj.
func (p *planner) usesJJ() bool {
	return slices.ContainsFunc(p.plan.Workspaces(), func(w forage.Workspace) bool { return jjrepo.Has(w.Repository) })
}

// jjConfig is the sandbox's system-wide jj configuration: whose name is on commits. jj doesn't ask
// git.
func (p *planner) jjConfig(ctx context.Context, git gitIdentity) {
	if !p.usesJJ() {
		return
	}
	caller := p.service.Caller
	name, email := jjrepo.Identity(ctx, caller.Home, caller.configHome())
	text := "[user]\n"
	for _, field := range []struct{ key, value string }{
		{"name", cmp.Or(p.opts.GitUser, name, git.name)}, {"email", cmp.Or(p.opts.GitEmail, email, git.email)},
	} {
		if quoted, err := json.Marshal(field.value); err == nil && field.value != "" { // TOML's strings have these escapes too
			text += field.key + " = " + string(quoted) + "\n"
		}
	}
	p.plan.Spec.Files = append(p.plan.Spec.Files, forage.File{Path: "/etc/jj/config.toml", Content: []byte(text)})
}
