package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"forage/internal/audit"
	"forage/internal/recommend"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newPolicyRecommend(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:     "recommend NAME [flags]",
		Short:   "Make an allowlist of what a sandbox asked for",
		Aliases: []string{"suggest"}, // its older name
		Long: `
Reads a sandbox's audit log and prints the smallest allowlist that would have
allowed all of it: what was allowed, and what monitor mode let through. Where
requests were looked into, rules name their methods and paths. Read it before
you use it: whatever ran inside has had a hand in it.`,
		Example: `
forage-ctl up work --monitor
forage-ctl policy recommend work`,
		Annotations:           map[string]string{exitNote: "2"},
		DisableFlagsInUseLine: true,
		Args:                  oneName,
		ValidArgsFunction:     a.completeName,
		RunE:                  func(_ *cobra.Command, args []string) error { return runPolicyRecommend(a, f, args[0]) },
	}
	f.add(c)
	return c
}

func runPolicyRecommend(a *app, f format, name string) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	path, err := service.AuditPath(name)
	if err != nil {
		return err
	}
	recommended, err := recommend.From(audit.EventsOf(path, audit.Filter{}))
	if err != nil {
		return err
	}
	if f.json(a) {
		return term.JSON(a.out, recommended)
	}
	about := fmt.Sprintf("From the audit log of %s, %s: %d events, %d of them connections and requests that were let through.",
		name, time.Now().Format(time.DateOnly), recommended.Events, recommended.Requests)
	return a.write(recommended.TOML(templateOf(service, name), about))
}

// templateOf is the template that a sandbox was made from; of a run that has
// ended, a name to be replaced.
func templateOf(service *sandbox.Service, name string) string {
	record, err := service.Store.Load(name)
	if err != nil || record.Template == "" {
		return "NAME"
	}
	return record.Template
}
