package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
)

// mounts adds the folders and files that the flags show inside.
func (p *planner) mounts(ctx context.Context) error {
	spec := &p.plan.Spec
	composed, err := composedMounts(p.plan.Workspaces())
	if err != nil {
		return err
	}
	spec.Mounts = append(spec.Mounts, composed...)
	if !p.chosen.Unprotected {
		if spec.Protect, err = p.host.protectedPaths(ctx, p.plan); err != nil {
			return err
		}
		list := changeable(p.plan)
		if more := len(list) - maxChangeable; more > 0 {
			list = append(list[:maxChangeable:maxChangeable], fmt.Sprintf("and %d more", more))
		}
		if len(list) > 0 {
			p.note("protected files that can be changed from inside all the same: %s", strings.Join(list, ", "))
		}
	}
	if err := p.samePath(); err != nil {
		return err
	}
	if err := p.flagMounts(); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(p.chosen.Volumes)) {
		if target := p.chosen.Volumes[name]; !isMounted(*spec, target) { // the flags show nothing else
			spec.Mounts = append(spec.Mounts, p.volume(name, target, true))
		}
	}
	if err := p.keepsStores(); err != nil {
		return err
	}
	return p.keepsRules()
}

// samePath shows all that is at /workspace, and what is protected there, at the path of the host
// too, where it was asked for.
func (p *planner) samePath() error {
	if !p.opts.SamePath && !p.chosen.SamePath {
		return nil
	}
	spec, at := &p.plan.Spec, p.plan.Workspace.Path
	if p.plan.Workspace.Mode != forage.WorkspaceDirect { // the path that its user knows it by
		at = p.plan.Workspace.Source
	}
	why := forage.CheckTarget(at)
	switch {
	case !filepath.IsAbs(at):
		why = errors.New("it has no path on this host")
	case rootfs.Within(at, forage.WorkspacePath), rootfs.Within(at, spec.Identity.Home):
		why = errors.New("that is where the sandbox has its own")
	}
	if why != nil {
		return forage.WithHint(
			forage.Errorf(forage.ErrRefused, "the workspace %s can't be shown at the same path inside: %w", at, why),
			"leave out --same-path, or samePath in the template: the workspace is at "+forage.WorkspacePath)
	}
	for _, mount := range slices.Clone(spec.Mounts) {
		if rest, ok := strings.CutPrefix(mount.Target+"/", forage.WorkspacePath+"/"); ok {
			mount.Target = path.Join(at, rest)
			if isMounted(*spec, mount.Target) {
				return forage.Errorf(forage.ErrUsage, "--same-path: something is mounted at %s already", mount.Target)
			}
			spec.Mounts = append(spec.Mounts, mount)
		}
	}
	for _, place := range slices.Clone(spec.Protect) {
		if rest, ok := strings.CutPrefix(place, forage.WorkspacePath+"/"); ok {
			spec.Protect = append(spec.Protect, path.Join(at, rest))
		}
	}
	spec.Dir = at
	return nil
}

// flagMounts adds what --mount and --volume ask for.
func (p *planner) flagMounts() error {
	spec := &p.plan.Spec
	add := func(flag, text string, parse func(flag, text string) (forage.Mount, error)) error {
		mount, err := parse(flag, text)
		if err != nil {
			return err
		}
		spec.Mounts = slices.DeleteFunc(spec.Mounts, func(m forage.Mount) bool { // what comes along by itself
			return m.Optional && (m.System || m.Layered) && m.Target == mount.Target
		})
		if isMounted(*spec, mount.Target) {
			return forage.Errorf(forage.ErrUsage, "%s %q: something is mounted at %s already", flag, text, mount.Target)
		}
		spec.Mounts = append(spec.Mounts, mount)
		return nil
	}
	for _, text := range p.opts.Mounts {
		if err := add("--mount", text, p.parseMount); err != nil {
			return err
		}
	}
	for _, text := range p.opts.Volumes {
		parse := p.parseVolume
		if isPath(text) {
			parse = p.parseMount
		}
		if err := add("--volume", text, parse); err != nil {
			return err
		}
	}
	return nil
}

func isMounted(spec forage.Spec, target string) bool {
	return slices.ContainsFunc(spec.Mounts, func(m forage.Mount) bool { return m.Target == target })
}

// keepsStores refuses mounts through which the sandbox could write to a repository of the host's
// that one of its workspaces is made from: what is in there is executed by the host's git.
func (p *planner) keepsStores() error {
	mounts := p.plan.Spec.Mounts
	for _, w := range p.plan.Workspaces() {
		if w.Repository == nil || w.Repository.Store == "" {
			continue
		}
		store := w.Repository.Store
		for _, mount := range mounts {
			if !mount.Writable || !rootfs.Within(store, mount.Source) && !rootfs.Within(mount.Source, store) {
				continue
			}
			inside := mount.Target + strings.TrimPrefix(store, mount.Source)
			covered := slices.ContainsFunc(mounts, func(over forage.Mount) bool { // or a folder that it is in
				return over.Target != mount.Target && rootfs.Within(over.Target, mount.Target) && rootfs.Within(inside, over.Target)
			})
			if rootfs.Within(store, mount.Source) && covered {
				continue
			}
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "the sandbox could change the repository %s, which %s is made from, at %s", store, w.Target, mount.Target),
				"show it read-only, or leave that mount out")
		}
	}
	return nil
}

// keepsRules refuses mounts through which the sandbox could change the configuration: the rules
// for it, and commands that are run on the host.
func (p *planner) keepsRules() error {
	for _, mount := range p.shown() {
		for _, file := range p.host.read {
			if mount.Writable && leadsInto(file, mount.Source) {
				return forage.WithHint(
					forage.Errorf(forage.ErrRefused, "the sandbox could change your configuration %s, at %s", file, mount.Target),
					"show it read-only (--read-only for the workspace), or keep your configuration elsewhere")
			}
		}
	}
	return nil
}

// parseMount reads SRC:DST[:ro|rw]. The source is resolved once: what is
// mounted is the path that was checked.
func (p *planner) parseMount(flag, text string) (forage.Mount, error) {
	usage := func(format string, args ...any) (forage.Mount, error) {
		return forage.Mount{}, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "%s %q: "+format, append([]any{flag, text}, args...)...),
			"write SRC:DST, SRC:DST:ro or SRC:DST:rw")
	}
	rest, writable := strings.CutSuffix(text, ":rw")
	if !writable {
		rest = strings.TrimSuffix(rest, ":ro")
	}
	at := strings.LastIndex(rest, ":")
	if at <= 0 {
		return usage("it has no destination")
	}
	source, target := rest[:at], rest[at+1:]
	if err := forage.CheckTarget(target); err != nil {
		return usage("the destination: %w", err)
	}
	source, err := p.host.Caller.Abs(source)
	if err != nil {
		return forage.Mount{}, err
	}
	resolved, err := filepath.EvalSymlinks(source)
	if err != nil {
		return usage("%w", err)
	}
	if err := p.mayShow(text, resolved); err != nil {
		return forage.Mount{}, err
	}
	if err := p.host.StaysWithin(source, resolved); err != nil {
		return forage.Mount{}, err
	}
	if err := p.confirmLink(source, resolved, true); err != nil {
		return forage.Mount{}, err
	}
	return forage.Mount{Source: resolved, Target: target, Writable: writable}, nil
}

// mayShow refuses sources that no sandbox may see.
func (p *planner) mayShow(text, source string) error {
	if source == "/" {
		return forage.Errorf(forage.ErrRefused, "--mount %q would show the sandbox the whole host", text)
	}
	for _, ours := range []string{p.host.Places.State, p.host.Places.Runtime} {
		if rootfs.Within(source, ours) || rootfs.Within(ours, source) {
			return forage.Errorf(forage.ErrRefused, "--mount %q would show the sandbox Forage's own folder %s", text, ours)
		}
	}
	return p.forbid.CheckMount(source)
}

// below says whether path is somewhere below dir.
func Below(path, dir string) bool { return strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/") }

// exists says whether there is something at path, through links.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// otherWriters notes which running sandboxes write to the user's folder that this one is to write
// to: two agents undo each other's work.
func (p *planner) otherWriters(context.Context) error {
	w := p.plan.Workspace
	if w.Mode != forage.WorkspaceDirect || w.ReadOnly {
		return nil
	}
	// What runs has a run-time folder; the state folder also has what is left of every past run.
	entries, _ := os.ReadDir(p.host.Places.Runtime)
	for _, entry := range entries {
		record, err := p.host.Store.Load(entry.Name())
		if err != nil || record.Name == p.plan.Name { // what can't be read is said elsewhere
			continue
		}
		for _, m := range record.Plan.Spec.Mounts {
			if m.Writable && (rootfs.Within(m.Source, w.Path) || rootfs.Within(w.Path, m.Source)) && p.host.Alive(record.Name) {
				p.note("the sandbox %s is running and writes to %s too; --git-worktree gives each a tree of its own", record.Name, m.Source)
				break
			}
		}
	}
	return nil
}

func (h *Host) VolumesDir() string {
	return filepath.Join(workspace.Resolved(h.Places.State), "volumes")
}

// isPath says whether --volume has a path before its colon, and not a name.
func isPath(text string) bool { return strings.HasPrefix(text, "/") || strings.HasPrefix(text, ".") }

// parseVolume reads NAME:DST[:ro|rw].
func (p *planner) parseVolume(flag, text string) (forage.Mount, error) {
	name, rest, _ := strings.Cut(text, ":")
	target, readOnly := strings.CutSuffix(rest, ":ro")
	err := forage.CheckTarget(strings.TrimSuffix(target, ":rw"))
	if nameErr := CheckVolume(name); nameErr != nil {
		err = nameErr
	}
	if err != nil {
		return forage.Mount{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "%s %q: %w", flag, text, err),
			"write NAME:DST or NAME:DST:ro; a folder of yours begins with / or ./")
	}
	return p.volume(name, strings.TrimSuffix(target, ":rw"), !readOnly), nil
}

func (p *planner) volume(name, target string, writable bool) forage.Mount {
	return forage.Mount{Source: filepath.Join(p.host.VolumesDir(), name), Target: target, Writable: writable, Volume: true}
}

func CheckVolume(name string) error {
	if err := forage.CheckName(name); err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrUsage, "%q is not a volume's name", name), forage.Hint(err))
	}
	return nil
}

// home decides whether the home is kept.
func (p *planner) home(context.Context) error {
	if p.plan.Ephemeral || p.chosen.EphemeralHome {
		return nil
	}
	if p.plan.Spec.Limits.DiskMax > 0 {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "diskMax can't bound a home that is kept on disk"),
			`add home = "ephemeral" to the template, or leave out diskMax`)
	}
	p.plan.Spec.KeptHome = p.host.HomeOf(p.plan.Name)
	return nil
}

func (h *Host) HomesDir() string { return filepath.Join(workspace.Resolved(h.Places.State), "homes") }

func (h *Host) HomeOf(name string) string { return filepath.Join(h.HomesDir(), name) }
