package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"forage/internal/audit"
	"forage/internal/term"
)

func newAuditVerify(a *app) *cobra.Command {
	var f format
	var file string
	c := &cobra.Command{
		Use:   "verify NAME|--file FILE [flags]",
		Short: "Check that an audit log is as it was written",
		Long: `
Follows the chain of hashes through the log: a line that was changed, removed,
added or moved is found, and so is a log that was cut at its end. The chain has
no key, so it guards against accidents and careless hands, not against the
account that owns the file.`,
		Example:               "forage-ctl audit verify work\nforage-ctl audit verify --file /var/lib/forage-proxy/build.audit.jsonl",
		Annotations:           map[string]string{exitNote: "2"},
		DisableFlagsInUseLine: true,
		Args: func(c *cobra.Command, args []string) error {
			if file != "" {
				return noArgs(c, args)
			}
			return oneName(c, args)
		},
		ValidArgsFunction: a.completeName,
		RunE: func(_ *cobra.Command, args []string) error {
			if file != "" {
				return verifyAudit(a, f, file, file)
			}
			return runAuditVerify(a, f, args[0])
		},
	}
	f.add(c)
	c.Flags().StringVar(&file, "file", "", "check the log in `FILE`, such as one of the proxy's")
	return c
}

func runAuditVerify(a *app, f format, name string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	path, err := service.AuditPath(name)
	if err != nil {
		return err
	}
	return verifyAudit(a, f, name, path)
}

// verifyAudit checks the log at path, which is called name.
func verifyAudit(a *app, f format, name, path string) error {
	events, err := audit.VerifyFile(path)
	if err != nil {
		return fmt.Errorf("verifying the audit log of %q, of which %d events are intact: %w", name, events, err)
	}
	if f.json(a) {
		return term.JSON(a.out, map[string]any{"sandbox": name, "events": events, "intact": true})
	}
	_, err = fmt.Fprintf(a.out, "%s: %d events, intact\n", term.Escape(name), events)
	return err
}
