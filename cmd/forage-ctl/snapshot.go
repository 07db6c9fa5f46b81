package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

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
	run   func(*cobra.Command, *app, *snapshotOptions, []string) error
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
	c := &cobra.Command{
		Use:   "snapshot NAME create|list|restore ID|delete ID [flags]",
		Short: "Keep a workspace as it is, and bring it back",
		Long: `
create keeps the exact content of the sandbox's workspace: files that are
committed, uncommitted and untracked, what the repository ignores with
--ignored only, and the sandbox's own repository with its branches, index and
stash. A snapshot is a folder; a file that has not changed since the last one is
a hard link to it, and takes no space.

restore makes the workspace that again, in a running sandbox too, after
keeping what it is now in a snapshot of its own. With --to FOLDER it changes
nothing, and writes the files to a new folder. It can be done again when it was
interrupted. A label that one snapshot alone has does for the ID.

'reset' and 'apply' make a snapshot before they begin. Those, and the snapshots
of a sandbox that was removed, go after 30 days, with 'gc'. list shows those of
earlier sandboxes of that name with --all only, and 'delete --all' removes all.`,
		Example: `
forage-ctl snapshot work create --label "tests pass"
forage-ctl snapshot work list
forage-ctl snapshot work restore 20260115-103000
forage-ctl snapshot work restore 20260115-103000 --to /tmp/look
forage-ctl snapshot work delete 20260115-103000`,
		Annotations:       map[string]string{exitNote: "2 7"},
		ValidArgsFunction: a.completeSnapshot,
		RunE:              func(c *cobra.Command, args []string) error { return runSnapshot(c, a, &o, args) },
	}
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
			if c.Flags().Changed(flag) && !strings.Contains(" "+strings.Join(verb.flags, " ")+" ", " "+flag+" ") {
				return usageError(c, "--%s means nothing with %s", flag, verb.name)
			}
		}
		return verb.run(c, a, o, args)
	}
	return usageError(c, "%q is none of create, list, restore and delete", args[1])
}

func createSnapshot(c *cobra.Command, a *app, o *snapshotOptions, args []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	made, err := service.Work.Snapshot(c.Context(), args[0], o.SnapshotOptions)
	if err != nil {
		return err
	}
	a.saySkipped(made)
	if o.format.json(a) {
		return term.JSON(a.out, made)
	}
	_, err = fmt.Fprintln(a.out, made.ID)
	return err
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

func listSnapshots(_ *cobra.Command, a *app, o *snapshotOptions, args []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	list, earlier, err := service.Work.Snapshots(args[0], o.all)
	if o.format.json(a) {
		if err != nil && len(list) == 0 {
			return err
		}
		return firstError(printList(a, list), err)
	}
	columns := []string{"ID", "MADE", "FILES", "SIZE", "LABEL"}
	if o.all {
		columns = append(columns, "SANDBOX MADE")
	}
	table := term.NewTable(columns...)
	for _, s := range list {
		row := []string{s.ID, s.Made.Local().Format(time.DateTime), strconv.Itoa(s.Files), term.Bytes(s.Bytes), dash(s.Label)}
		if o.all {
			row = append(row, s.Of.Local().Format(time.DateTime))
		}
		table.Row(row...)
	}
	if earlier > 0 && !o.all {
		a.note(fmt.Sprintf("%d more of an earlier sandbox called %s: --all shows them", earlier, args[0]))
	}
	if len(list) == 0 {
		return err
	}
	return firstError(table.Write(a.out), err)
}

func restoreSnapshot(c *cobra.Command, a *app, o *snapshotOptions, args []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	name, id := args[0], args[2]
	if o.to != "" {
		return service.Work.Export(c.Context(), name, id, o.to)
	}
	before, err := service.Work.Restore(c.Context(), name, id)
	if before.ID != "" {
		a.saySkipped(before)
		a.note(fmt.Sprintf("what was there until now is the snapshot %s", before.ID))
	}
	if err == nil && o.format.json(a) {
		return term.JSON(a.out, before)
	}
	return err
}

func deleteSnapshot(_ *cobra.Command, a *app, o *snapshotOptions, args []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	if o.all {
		return service.Work.DeleteSnapshots(args[0])
	}
	return service.Work.DeleteSnapshot(args[0], args[2])
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
		service, err := a.open(func(error) {})
		if err != nil || args[1] != "restore" && args[1] != "delete" {
			break
		}
		list, _, _ := service.Work.Snapshots(args[0], false) // what can be read is offered
		for _, s := range list {
			offered = append(offered, cobra.CompletionWithDesc(s.ID, s.Label))
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
