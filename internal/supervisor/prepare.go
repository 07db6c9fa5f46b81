package supervisor

import (
	"context"
	"maps"
	"path"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/image"
	"forage/internal/inject"
	"forage/internal/store"
)

// prepareRootfs unpacks an image and checks that the root filesystem has what
// the plan relies on, before anything is started.
func (s *Sandbox) prepareRootfs(ctx context.Context) error {
	spec := &s.setup.Plan.Spec
	if spec.Rootfs.Kind != forage.RootfsHost {
		lower, path, err := image.Resolve(ctx, spec.Rootfs, s.setup.ImageCache, image.Limits{})
		if err != nil {
			return err
		}
		spec.Rootfs.Lower = lower
		s.adopt(path)
		if err := s.update(func(record *store.Record) { record.Trees = lower }); err != nil {
			return err
		}
	}
	if spec.Rootfs.Kind != forage.RootfsHost && len(spec.Init) == 0 && len(spec.Command) > 0 && !strings.Contains(spec.Command[0], "/") {
		if known, ok := agent.Lookup(spec.Command[0]); ok && !s.hasCommand(known.Name) {
			return forage.WithHint(
				forage.Errorf(forage.ErrUnsupported, "%s is not in the root filesystem", known.Name),
				"install it there: "+known.Install)
		}
	}
	if spec.Session && !s.hasCommand("tmux") {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the root filesystem has no tmux, which a session needs"),
			"install tmux there, or use `run`, which needs none")
	}
	return nil
}

// adopt takes over what an image says of its own PATH. It is a copy of the
// plan's environment that changes: the frozen plan stays as it is.
func (s *Sandbox) adopt(path string) {
	if path == "" {
		return
	}
	env := maps.Clone(s.setup.Plan.Spec.Env)
	wrapped := strings.HasPrefix(env["PATH"], inject.WrapperPath+":")
	env["PATH"] = path
	if wrapped {
		env["PATH"] = inject.WrapperPath + ":" + path
	}
	s.setup.Plan.Spec.Env = env
}

// hasCommand says whether the root filesystem has a command of that name on its PATH.
func (s *Sandbox) hasCommand(name string) bool {
	spec := s.setup.Plan.Spec
	return slices.ContainsFunc(strings.Split(spec.Env["PATH"], ":"), func(dir string) bool {
		return s.setup.Runtime.Has(spec, path.Join(dir, name))
	})
}
