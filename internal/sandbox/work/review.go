package work

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/audit"
	"forage/internal/deadline"
	"forage/internal/rootfs"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/term"
	"forage/internal/workspace"
	"forage/internal/workspace/autorun"
	"forage/internal/workspace/review"
)

// ReviewOptions say what Diff and Apply are about.
type ReviewOptions struct {
	Part string // of a composed workspace; "" is all of it
}

// ApplyOptions say what Apply brings, and where.
type ApplyOptions struct {
	ReviewOptions
	Into   string   // branch of the user's repository; "" is the one that is checked out
	Paths  []string // only these
	DryRun bool     // everything is checked, and nothing is done
	// NoCommit leaves what is not committed as changes in the user's folder.
	NoCommit bool
	// Picks are what the user chose on the screen, by part: only these parts, in the place of Paths.
	Picks map[string]*review.Pick
}

// Diff brings the commits of a sandbox to the host's repository and reviews what was done, part by
// part. show may take as long as it likes. It returns whole when it showed the contents, so that
// Apply can say when they have changed since.
func (k *Keeper) Diff(ctx context.Context, name string, o ReviewOptions, show func([]*review.Session) (whole bool, err error)) (err error) {
	record, err := k.Host.Store.Load(name)
	if err != nil {
		return err
	}
	sessions, err := k.reviews(ctx, record, o)
	defer func() { err = errors.Join(err, closeAll(sessions)) }()
	if err != nil {
		return err
	}
	whole, err := show(sessions)
	if err != nil || !whole {
		return err
	}
	var failed []error
	for _, session := range sessions {
		failed = append(failed, session.MarkShown(ctx))
	}
	return errors.Join(failed...)
}

func closeAll(sessions []*review.Session) error {
	var failed []error
	for _, session := range sessions {
		failed = append(failed, session.Close())
	}
	return errors.Join(failed...)
}

// reviews opens a review of each part that has something to compare with.
func (k *Keeper) reviews(ctx context.Context, record store.Record, o ReviewOptions) (sessions []*review.Session, err error) {
	parts, err := chosen(record.Plan, o.Part)
	if err != nil {
		return nil, err
	}
	if err := k.Update(ctx, record.Plan); err != nil {
		k.Notify(fmt.Sprintf("what is shown is as it was brought last: %v", err))
	}
	found, err := k.FindingsOf(ctx, record)
	if err != nil {
		k.Notify(fmt.Sprintf("the workspace could not be looked through for what host tools execute: %v", err))
	}
	for _, w := range parts {
		session, err := review.Open(ctx, k.subject(record.Name, w))
		if err != nil {
			if errors.Is(err, forage.ErrUnsupported) && len(parts) > 1 {
				k.Notify(err.Error())
				continue
			}
			return sessions, fmt.Errorf("%s: %w", partName(record.Name, w), err)
		}
		sessions = append(sessions, session)
		if err := session.AddFindings(ctx, findingsIn(found, w, record.Plan.Workspace.Name)); err != nil {
			return sessions, err
		}
	}
	return sessions, nil
}

// subject is what a part is to package review.
func (k *Keeper) subject(name string, w forage.Workspace) review.Subject {
	return review.Subject{Sandbox: name, Workspace: w, Places: k.Host.Workspaces.Places, Git: k.Host.Caller.GitConfig()}
}

// chosen are the parts of a workspace that a user means.
func chosen(plan forage.Plan, part string) ([]forage.Workspace, error) {
	all := plan.Workspaces()
	if part == "" {
		return all, nil
	}
	var names []string
	for _, w := range all {
		name := cmp.Or(w.Name, workspace.Main)
		if name == part {
			return []forage.Workspace{w}, nil
		}
		names = append(names, name)
	}
	return nil, forage.WithHint(
		forage.Errorf(forage.ErrUsage, "the workspace of %s has no part %q", plan.Name, part), "it has "+strings.Join(names, ", "))
}

// findingsIn are those of one part.
func findingsIn(found []Finding, w forage.Workspace, main string) []autorun.Finding {
	var list []autorun.Finding
	for _, h := range found {
		if h.Part == w.Name || h.Part == "" && w.Name == main {
			list = append(list, h.Finding)
		}
	}
	return list
}

// Apply brings the work of a sandbox, which may run, into the user's repositories: each part as a
// whole or not at all, and none before all are ready. What was done is returned beside an error
// too.
func (k *Keeper) Apply(ctx context.Context, name string, o ApplyOptions) (all []review.Applied, err error) {
	if branch, ok := strings.CutPrefix(o.Into, "refs/heads/"); ok { // git takes it for a branch of that very name
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "%s is no branch's name", o.Into), "write --into "+branch)
	}
	err = k.Locked(ctx, name, func(record store.Record) (err error) {
		unlock, err := workspace.Lock(ctx, filepath.Join(k.Host.Workspaces.Places.Repositories, ".apply"))
		if err != nil {
			return err
		}
		defer unlock()
		if !o.DryRun {
			if err := k.recoverApplies(ctx, record, o.Part); err != nil {
				return err
			}
		}
		opened, err := k.reviews(ctx, record, o.ReviewOptions)
		defer func() { err = errors.Join(err, closeAll(opened)) }()
		if err != nil {
			return err
		}
		sessions := slices.DeleteFunc(slices.Clone(opened), func(s *review.Session) bool { return o.Picks != nil && o.Picks[s.Part] == nil })
		who := plan.CallersGit(ctx, k.Host.Caller)
		options := review.Options{Into: o.Into, Paths: o.Paths, NoCommit: o.NoCommit, Name: who.Name, Email: who.Email, DryRun: o.DryRun, Quiet: k.nobodyWrites}
		would, installs, err := prepareAll(ctx, sessions, options, o.Picks)
		changes := slices.ContainsFunc(would, review.Applied.Changes)
		if err == nil && !changes {
			err = k.notBrought(ctx, record)
		}
		if err != nil {
			return err
		}
		if o.DryRun {
			if o.Picks != nil {
				err = k.shownFirst(ctx, record, sessions, o)
			}
			all = would
			return err
		}
		if changes { // else it is only remembered that the user has it all
			if err := k.shownFirst(ctx, record, sessions, o); err != nil {
				return err
			}
			if err := k.Record(ctx, name, audit.Event{Kind: audit.Exec, Verdict: "allow", Method: "apply", Path: o.Into}); err != nil {
				return err
			}
			k.SnapshotBefore(ctx, record, "apply")
			// Says when what is brought is not what diff has shown the user.
			for _, session := range sessions {
				switch same, any := session.Seen(); {
				case same || o.Picks != nil || len(session.Changes) == 0 && !session.Hides():
				case any:
					k.Notify("the files were changed since `diff` showed them last")
				default:
					k.Notify("`diff` has not shown these changes yet")
				}
			}
		}
		all, err = installAll(ctx, would, installs)
		return err
	})
	return all, err
}

// notBrought says why there may be work that can't be applied: it could not be brought out of the
// sandbox.
func (k *Keeper) notBrought(ctx context.Context, record store.Record) error {
	for _, w := range k.Of(ctx, deadline.Progress, record.Plan.Workspaces()) {
		if w.Problem != "" {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "there is nothing else to apply, and what was committed inside could not be brought out: %s", w.Problem),
				cmp.Or(forage.Hint(k.Update(ctx, record.Plan)), "`forage-ctl exec "+record.Name+" -- git fsck` looks at it; make the commit anew without that")+
					"; `forage-ctl cp` gets at the files")
		}
	}
	return nil
}

// recoverApplies takes back what applies left that were killed.
func (k *Keeper) recoverApplies(ctx context.Context, record store.Record, part string) error {
	parts, err := chosen(record.Plan, part)
	if err != nil {
		return err
	}
	var failed []error
	for _, w := range parts {
		failed = append(failed, review.Recover(ctx, k.subject(record.Name, w), k.nobodyWrites))
	}
	return errors.Join(failed...)
}

// prepareAll brings the parts to where each is one step from being applied. An error says of which
// it is, if there are several.
func prepareAll(ctx context.Context, sessions []*review.Session, o review.Options, picks map[string]*review.Pick) ([]review.Applied, []review.Install, error) {
	all := []review.Applied{}
	var installs []review.Install
	for _, session := range sessions {
		o.Pick = picks[session.Part]
		done, install, err := session.Prepare(ctx, o)
		if err != nil && len(sessions) > 1 {
			err = fmt.Errorf("%s: %w", session.Part, err)
		}
		if err != nil {
			return []review.Applied{}, nil, err
		}
		all, installs = append(all, done), append(installs, install)
	}
	return all, installs, nil
}

// installAll does what was prepared, and says what was not done if one part fails at the last
// moment.
func installAll(ctx context.Context, would []review.Applied, installs []review.Install) ([]review.Applied, error) {
	all := []review.Applied{}
	for i, install := range installs {
		done := would[i]
		if install != nil {
			var err error
			if done, err = install(ctx); err != nil {
				return all, notApplied(err, would[:i], would[i:])
			}
		}
		all = append(all, done)
	}
	return all, nil
}

// notApplied says which parts of a workspace an error has left where they were.
func notApplied(err error, done, left []review.Applied) error {
	names := func(parts []review.Applied) (names []string) {
		for _, part := range parts {
			if part.Changes() {
				names = append(names, part.Part)
			}
		}
		return names
	}
	if len(done)+len(left) == 1 {
		return err
	}
	text := "not applied: " + strings.Join(names(left), ", ")
	if applied := names(done); len(applied) > 0 {
		text += "; applied already, and left so: " + strings.Join(applied, ", ")
	}
	return fmt.Errorf("%s: %w (%s)", left[0].Part, err, text)
}

// shownFirst refuses what `diff` has not shown of attributes and settings of Git LFS, which say
// which of the user's filters git runs, and of what tools of the host execute as soon as it is
// there.
func (k *Keeper) shownFirst(ctx context.Context, record store.Record, sessions []*review.Session, o ApplyOptions) error {
	for _, session := range sessions {
		chosen := o.Paths
		if pick := o.Picks[session.Part]; pick != nil {
			chosen = pick.Paths()
		}
		if same, _ := session.Seen(); same {
			continue
		}
		paths, why := slices.DeleteFunc(session.Attributes(chosen), session.SeenFile), "git takes from it which of your programs to run"
		if len(paths) == 0 {
			found, err := k.FindingsOf(ctx, record)
			if err != nil {
				return err
			}
			for _, f := range found {
				if f.Immediate && cmp.Or(f.Part, record.Plan.Workspace.Name, workspace.Main) == cmp.Or(session.Part, workspace.Main) && session.Brings(f.Path, chosen) && !session.SeenFile(f.Path) {
					paths, why = append(paths, f.Path), "tools of your machine execute it as soon as you go there, or open it in an editor"
				}
			}
		}
		if len(paths) > 0 {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "changed, and not shown yet: %s; %s", term.Escape(strings.Join(paths, ", ")), why),
				"look at all of it with `forage-ctl diff "+record.Name+"`, without --stat, and apply then; --paths chooses other files")
		}
	}
	return nil
}

// nobodyWrites refuses to write files into a folder that a running sandbox can write to: while we
// go to a file by its path, it could turn a folder on the way into a link.
func (k *Keeper) nobodyWrites(folder string) error {
	records, broken, err := k.Host.Store.List()
	if err != nil {
		return err
	}
	for _, one := range broken {
		if k.Host.Alive(one.Name) {
			return forage.WithHint(
				forage.Errorf(forage.ErrRefused, "whether the sandbox %s writes to %s is not known: its record can't be read", one.Name, folder),
				"remove it with `forage-ctl down --force "+one.Name+"`")
		}
	}
	for _, record := range records {
		if !k.Host.Alive(record.Name) {
			continue
		}
		for _, m := range record.Plan.Spec.Mounts {
			if m.Writable && (rootfs.Within(m.Source, folder) || rootfs.Within(folder, m.Source)) {
				return forage.WithHint(
					forage.Errorf(forage.ErrRefused, "the sandbox %s is running, and can write to %s", record.Name, m.Source),
					"stop it with `forage-ctl stop "+record.Name+"`, or, in a repository, apply to another branch with --into")
			}
		}
	}
	return nil
}
