package sandbox

import (
	"context"
	"path"
	"slices"
	"strings"

	"forage"
	"forage/internal/skills"
)

// skills says where agents find what they are told of the sandbox. It is written when the sandbox
// starts. A run of a command that is no known agent is told nothing, unless the template asks for
// it.
func (p *planner) skills(context.Context) error {
	if len(p.known) == 0 && !p.plan.Spec.Session && p.chosen.Skills == (forage.Skills{}) {
		return nil
	}
	home := p.plan.Spec.Identity.Home
	files := []string{path.Join(home, ".claude", skills.Name)}
	for _, k := range p.known {
		for _, file := range k.known.Instructions {
			rest, own := strings.CutPrefix(file, k.known.Config.Inside+"/")
			if own && k.ContainerConfigDir != "" {
				file = path.Join(k.ContainerConfigDir, rest)
			} else if rest, ok := strings.CutPrefix(file, "~/"); ok {
				file = path.Join(home, rest)
			}
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	// What the user mounts there counts.
	files = slices.DeleteFunc(files, func(file string) bool { return p.mountOver(file) != "" })
	p.plan.Skills = forage.Instructions{Skills: p.chosen.Skills, Files: files, Own: p.service.skills}
	return nil
}
