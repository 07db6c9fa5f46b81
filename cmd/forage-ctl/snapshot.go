package main

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"forage/internal/sandbox"
	"forage/internal/sandbox/work"
	"forage/internal/term"
	"forage/internal/workspace/snapshot"
)

type snapshotOptions struct {
	work.SnapshotOptions
	to     string
	all    bool
	format format
}

// snapshotVerb is what `snapshot NAME` can be followed by.
type snapshotVerb struct {
	name  string
	ids   int      // how many arguments it takes
	flags []string // that mean something with it
	run   func(*cobra.Command, *app, *sandbox.Service, *snapshotOptions, []string) error
}

func snapshotVerbs() []snapshotVerb {
	return []snapshotVerb{
		{"create", 0, []string{"label", "ignored", "output"}, createSnapshot},
		{"list", 0, []string{"all", "output"}, listSnapshots},
		{"restore", 1, []string{"to", "output"}, restoreSnapshot},
		{"delete", 1, []string{"all"}, deleteSnapshot},
	}
}

func newSnapshot(a *app) *cobra.Command {
	var o snapshotOptions
	c := command("snapshot", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error { return runSnapshot(c, a, &o, args) })
	c.ValidArgsFunction = a.completeSnapshot
	c.Flags().StringVar(&o.Label, "label", "", "create: say what it is, in `TEXT`")
	c.Flags().BoolVar(&o.Ignored, "ignored", false, "create: keep what the repository ignores too")
	c.Flags().BoolVar(&o.all, "all", false, "list, delete: also those of earlier sandboxes of that name")
	c.Flags().StringVar(&o.to, "to", "", "restore: write the files to `FOLDER`, which is empty or not there")
	o.format.add(c)
	return c
}

func runSnapshot(c *cobra.Command, a *app, o *snapshotOptions, args []string) error {
	if err := oneName(c, args[:min(len(args), 1)]); err != nil {
		return err
	}
	if len(args) == 1 {
		return usageError(c, "create, list, restore or delete?")
	}
	if err := notEmpty(c, "to"); err != nil {
		return err
	}
	for _, verb := range snapshotVerbs() {
		if verb.name != args[1] {
			continue
		}
		if o.all && verb.name == "delete" {
			verb.ids = 0
		}
		switch n := len(args) - 2; {
		case n < verb.ids:
			return usageError(c, "%s which snapshot?", verb.name)
		case n > verb.ids:
			return usageError(c, "unexpected argument %q", args[2+verb.ids])
		}
		for _, flag := range []string{"label", "ignored", "to", "all", "output"} {
			if c.Flags().Changed(flag) && !slices.Contains(verb.flags, flag) {
				return usageError(c, "--%s means nothing with %s", flag, verb.name)
			}
		}
		service, err := a.serviceAnyway()
		if err != nil {
			return err
		}
		return verb.run(c, a, service, o, args)
	}
	return usageError(c, "%q is none of create, list, restore and delete", args[1])
}

func createSnapshot(c *cobra.Command, a *app, s *sandbox.Service, o *snapshotOptions, args []string) error {
	made, err := s.Work.Snapshot(c.Context(), args[0], o.SnapshotOptions)
	if err != nil {
		return err
	}
	a.saySkipped(made)
	return o.format.show(a, made, func() error { return a.write(made.ID + "\n") })
}

// saySkipped says what a snapshot is without.
func (a *app) saySkipped(s snapshot.Snapshot) {
	for _, path := range s.Skipped[:min(len(s.Skipped), 5)] {
		a.note("not in the snapshot: " + term.Escape(path))
	}
	if more := s.SkippedCount - 5; more > 0 {
		a.note(fmt.Sprintf("not in the snapshot: %d more, which -o json names", more))
	}
}

func listSnapshots(_ *cobra.Command, a *app, s *sandbox.Service, o *snapshotOptions, args []string) error {
	list, earlier, err := s.Work.Snapshots(args[0], o.all)
	if err != nil && len(list) == 0 {
		return err
	}
	columns := []string{"ID", "MADE", "FILES", "SIZE", "LABEL"}
	if o.all {
		columns = append(columns, "SANDBOX MADE")
	}
	t := newTable(columns...)
	for _, one := range list {
		row := []string{one.ID, one.Made.Local().Format(time.DateTime), strconv.Itoa(one.Files), term.Bytes(one.Bytes), dash(one.Label)}
		if o.all {
			row = append(row, one.Of.Local().Format(time.DateTime))
		}
		t.Row(row...)
	}
	return firstError(o.format.show(a, list, func() error {
		if earlier > 0 && !o.all {
			a.note(fmt.Sprintf("%d more of an earlier sandbox called %s: --all shows them", earlier, args[0]))
		}
		if len(list) == 0 {
			return nil
		}
		return t.print(a)
	}), err)
}

func restoreSnapshot(c *cobra.Command, a *app, s *sandbox.Service, o *snapshotOptions, args []string) error {
	if o.to != "" {
		return s.Work.Export(c.Context(), args[0], args[2], o.to)
	}
	before, err := s.Work.Restore(c.Context(), args[0], args[2])
	if before.ID != "" {
		a.saySkipped(before)
		a.note(fmt.Sprintf("what was there until now is the snapshot %s", before.ID))
	}
	if err != nil {
		return err
	}
	return o.format.show(a, before, func() error { return nil })
}

func deleteSnapshot(_ *cobra.Command, _ *app, s *sandbox.Service, o *snapshotOptions, args []string) error {
	if o.all {
		return s.Work.DeleteSnapshots(args[0])
	}
	return s.Work.DeleteSnapshot(args[0], args[2])
}

// completeSnapshot offers sandboxes, verbs and snapshots.
func (a *app) completeSnapshot(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var offered []string
	switch len(args) {
	case 0:
		return a.completeName(c, args, prefix)
	case 1:
		for _, verb := range snapshotVerbs() {
			offered = append(offered, verb.name)
		}
	case 2:
		if args[1] == "restore" || args[1] == "delete" {
			return a.offer(func(s *sandbox.Service) (offered []string) {
				list, _, _ := s.Work.Snapshots(args[0], false) // what can be read is offered
				for _, one := range list {
					offered = append(offered, cobra.CompletionWithDesc(one.ID, one.Label))
				}
				return offered
			})
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
