package supervisor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/image"
	"forage/internal/rootfs"
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
		if known, ok := agent.Lookup(spec.Command[0]); ok && !s.hasCommand(spec.Command[0]) {
			if err := s.takeAlong(); err != nil {
				return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s is not in the root filesystem, and %w", known.Name, err),
					"install it there: "+known.Install)
			}
		}
	}
	if spec.Session && !s.hasCommand("tmux") {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the root filesystem has no tmux, which a session needs"),
			"install tmux there, or use `run`, which needs none")
	}
	return nil
}

// takeAlong shows the caller's own agent, and what interprets it, where the root filesystem has none
// of that name. It is a copy of the plan that changes, as in adopt.
func (s *Sandbox) takeAlong() error {
	spec := &s.setup.Plan.Spec
	if len(spec.Along) == 0 {
		return errors.New("this host has none to take along")
	}
	env, mounts, links := maps.Clone(spec.Env), slices.Clone(spec.Mounts), slices.Clone(spec.Links)
	for _, program := range spec.Along {
		if s.hasCommand(program.Name) {
			continue
		}
		for _, file := range program.Needs {
			if !s.setup.Runtime.Has(*spec, file) {
				return fmt.Errorf("this host's %s needs %s, which is not there either", program.Name, file)
			}
		}
		for _, library := range program.Libraries {
			if !slices.ContainsFunc(libraryDirs, func(dir string) bool { return s.setup.Runtime.Has(*spec, path.Join(dir, library)) }) {
				return fmt.Errorf("this host's %s needs the library %s, which is not there either", program.Name, library)
			}
		}
		mounts, links = append(mounts, program.Mounts...), append(links, program.Links...)
		env["PATH"] += ":" + program.Dir
	}
	spec.Env, spec.Mounts, spec.Links = env, mounts, links
	return nil
}

// libraryDirs are where distributions keep shared libraries.
var libraryDirs = []string{
	"/lib", "/usr/lib", "/lib64", "/usr/lib64", "/usr/local/lib",
	"/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
}

// adopt takes over what an image says of its own PATH. It is a copy of the
// plan's environment that changes: the frozen plan stays as it is.
func (s *Sandbox) adopt(path string) {
	if path == "" {
		return
	}
	env := maps.Clone(s.setup.Plan.Spec.Env)
	var own []string
	for dir := range strings.SplitSeq(env["PATH"], ":") {
		if rootfs.Within(dir, forage.RunPath) {
			own = append(own, dir)
		}
	}
	env["PATH"] = strings.Join(append(own, path), ":")
	s.setup.Plan.Spec.Env = env
}

// hasCommand says whether the root filesystem has a command of that name on its PATH.
func (s *Sandbox) hasCommand(name string) bool {
	spec := s.setup.Plan.Spec
	return slices.ContainsFunc(strings.Split(spec.Env["PATH"], ":"), func(dir string) bool {
		return s.setup.Runtime.Has(spec, path.Join(dir, name))
	})
}
