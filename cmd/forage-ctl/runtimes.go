package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"forage/internal/runtime"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newRuntimes(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:   "runtimes",
		Short: "List what can isolate, and whether it works here",
		Long: `
Lists the runtimes, whether this host can run each, and what each can enforce.
Templates that ask for more than a runtime can enforce are refused by it.`,
		Example:           "forage-ctl runtimes\nforage-ctl runtimes -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(c *cobra.Command, _ []string) error { return runRuntimes(c, a, f) },
	}
	f.add(c)
	return c
}

// runtimeReport is a runtime with what was found out about it here.
type runtimeReport struct {
	runtime.Info
	Works    bool              `json:"works"`
	Findings []runtime.Finding `json:"findings"`
}

func runRuntimes(c *cobra.Command, a *app, f format) error {
	service, err := a.service()
	if err != nil {
		return err
	}
	var reports []runtimeReport
	for _, name := range service.Runtimes.Names() {
		rt, err := service.Runtimes.New(name)
		if err != nil {
			return err
		}
		report := sandbox.Report{About: name, Findings: rt.Check(c.Context())}
		reports = append(reports, runtimeReport{rt.Info(), report.Works(), report.Findings})
	}
	if f.json(a) {
		return printList(a, reports)
	}
	table := term.NewTable("NAME", "WORKS", "DESCRIPTION", "ENFORCES")
	for _, r := range reports {
		table.Row(r.Name, works(r.Works, true), r.Description, enforces(r))
	}
	return table.Write(a.out)
}

// enforces is what a runtime can do here, in words.
func enforces(r runtimeReport) string {
	can := r.Capabilities
	var words []string
	for _, one := range []struct {
		can  bool
		word string
	}{
		{can.TransparentProxy, "transparent egress"},
		{can.Seccomp, "seccomp"},
		{can.TasksMax, "tasksMax"},
		{can.MemoryMax, "memoryMax"},
		{can.CPUQuota, "cpuQuota"},
		{can.DiskMax, "diskMax"},
		{can.NestedNamespaces, "nested namespaces"},
		{can.Files, "files"},
		{can.Links, "links"},
		{can.LayeredMounts, "layered mounts"},
		{can.ProtectedPaths, "protected paths"},
		{can.SocketMasks, "socket masks"},
	} {
		missing := slices.ContainsFunc(r.Findings, func(f runtime.Finding) bool { return f.Name == one.word && !f.OK })
		if one.can && !missing {
			words = append(words, one.word)
		}
	}
	for _, kind := range can.Rootfs {
		words = append(words, "rootfs "+string(kind))
	}
	return strings.Join(words, ", ")
}
