package main

import (
	"cmp"
	"fmt"
	"maps"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/config"
	runtimes "forage/internal/runtime"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newTemplates(a *app) *cobra.Command {
	var f format
	c := a.unnamed("templates", a.service, func(_ *cobra.Command, s *sandbox.Service) error {
		templates := byName(s.Host.Config)
		t := newTable("NAME", "RUNTIME", "NETWORK", "AGENTS", "DESCRIPTION")
		for _, one := range templates {
			network := cmp.Or(string(one.Network.Mode), string(forage.NetworkNone))
			if n := len(one.Network.Allow); n > 0 {
				network += " (" + term.Count(n, "host") + ")"
			}
			t.Row(one.Name, dash(one.Runtime), network, dash(strings.Join(slices.Sorted(maps.Keys(one.Agents)), " ")), one.Description)
		}
		return f.show(a, templates, t.printer(a))
	})
	f.add(c)
	return c
}

// byName are the templates in the order of their names.
func byName(loaded *config.Config) []forage.Template {
	list := make([]forage.Template, 0, len(loaded.Templates))
	for _, name := range slices.Sorted(maps.Keys(loaded.Templates)) {
		list = append(list, loaded.Templates[name])
	}
	return list
}

// offeredTemplates are the templates, each with what it is for.
func offeredTemplates(loaded *config.Config) (offered []string) {
	for _, template := range byName(loaded) {
		offered = append(offered, cobra.CompletionWithDesc(template.Name, template.Description))
	}
	return offered
}

// runtimeReport is a runtime with what was found out about it here.
type runtimeReport struct {
	runtimes.Info
	Works    bool               `json:"works"`
	Active   map[string]bool    `json:"active"` // by row: whether it is enforced on this host
	Findings []runtimes.Finding `json:"findings"`
}

func newRuntimes(a *app) *cobra.Command {
	var f format
	c := a.unnamed("runtimes", a.service, func(c *cobra.Command, s *sandbox.Service) error {
		var reports []runtimeReport
		for _, name := range s.Host.Runtimes.Names() {
			rt, err := s.Host.Runtimes.New(name)
			if err != nil {
				return err
			}
			report := sandbox.Report{About: name, Findings: rt.Check(c.Context())}
			r := runtimeReport{rt.Info(), report.Works(), map[string]bool{}, report.Findings}
			for _, row := range r.Capabilities.Rows() {
				r.Active[row.Name] = r.Works && row.Active(r.Findings)
			}
			reports = append(reports, r)
		}
		return f.show(a, reports, func() error { return printRuntimes(a, reports) })
	})
	f.add(c)
	return c
}

// printRuntimes has a line for each runtime, and a table with a column for each.
func printRuntimes(a *app, reports []runtimeReport) error {
	list, heads := newTable("NAME", "WORKS", "DESCRIPTION"), []string{"ENFORCES"}
	for _, r := range reports {
		list.Row(r.Name, works(r.Works, true), r.Description)
		heads = append(heads, strings.ToUpper(r.Name))
	}
	if err := firstError(list.print(a), a.write("\n")); err != nil {
		return err
	}
	table := newTable(heads...)
	for _, row := range (runtimes.Capabilities{}).Rows() {
		cells := []string{row.What}
		for _, r := range reports {
			cell := "no"
			if r.Active[row.Name] {
				cell = "yes"
			} else if r.Capabilities.Has(row.Name) {
				cell = "-"
			}
			cells = append(cells, cell)
		}
		table.Row(cells...)
	}
	return table.print(a)
}

// version is set by the linker (-X main.version=...); a build without it takes
// what the Go tool knows.
var version string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	var f format
	c := command("version", noArgs, func(*cobra.Command, []string) error { return a.printVersion(f) })
	f.add(c)
	return c
}

func (a *app) printVersion(f format) error {
	info := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		info.Version = cmp.Or(info.Version, build.Main.Version)
		for _, setting := range build.Settings {
			if setting.Key == "vcs.revision" {
				info.Revision = setting.Value
			}
		}
	}
	return f.show(a, info, func() error {
		return a.write(fmt.Sprintf("forage-ctl %s (%s, %s)\n", info.Version, info.Go, info.Platform))
	})
}

func newCompletion(a *app) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	c := command("completion", nil, func(c *cobra.Command, args []string) error {
		switch root := c.Root(); args[0] {
		case "bash":
			return root.GenBashCompletionV2(a.out, true)
		case "zsh":
			return root.GenZshCompletion(a.out)
		case "fish":
			return root.GenFishCompletion(a.out, true)
		default:
			return root.GenPowerShellCompletionWithDesc(a.out)
		}
	})
	c.ValidArgs, c.ValidArgsFunction = shells, nil
	c.Args = func(c *cobra.Command, args []string) error {
		var shell string
		if len(args) != 1 {
			return usageError(c, "which shell?")
		}
		if err := (choice{&shell, shells}).Set(args[0]); err != nil {
			return usageError(c, "%q: %w", args[0], err)
		}
		return nil
	}
	return c
}
