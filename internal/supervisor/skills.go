package supervisor

import (
	"context"
	"slices"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/skills"
)

// placeSkills tells the agent about its sandbox, as it is now, in the files that the plan names. A
// file that is there already, such as the user's own instructions, goes before.
func (s *Sandbox) placeSkills(context.Context) error {
	plan := &s.setup.Plan
	if len(plan.Skills.Files) == 0 {
		return nil
	}
	own, err := skills.Own(plan.Skills.Own)
	if err != nil {
		return forage.Errorf(forage.ErrUsage, "reading your own skills: %w", err)
	}
	text := skills.Text(skills.Facts{
		Plan: *plan, Network: s.setup.Network, Own: own, Project: skills.Analyse(plan.Workspace.Path),
		Has: func(name string) bool { return s.hasCommand(name) },
	})
	plan.Spec.Files = slices.Clone(plan.Spec.Files)
	for _, file := range plan.Skills.Files {
		mine := rootfs.Within(file, plan.Spec.Identity.Home)
		at := slices.IndexFunc(plan.Spec.Files, func(f forage.File) bool { return f.Path == file })
		if at < 0 {
			plan.Spec.Files = append(plan.Spec.Files, forage.File{Path: file, Content: text, Owned: mine, Renew: mine})
			continue
		}
		there := &plan.Spec.Files[at]
		there.Content, there.Renew = slices.Concat(there.Content, []byte("\n"), text), mine && there.Owned
	}
	return nil
}
