package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"sync"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/picker"
	"forage/internal/sandbox"
	"forage/internal/term"
)

func newPick(a *app) *cobra.Command {
	var plain bool
	c := a.unnamed("pick", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service) error {
		if !a.interactive() {
			return forage.WithHint(usageError(c, "stdin and stdout are not a terminal"), "`forage-ctl ps` prints the list")
		}
		return a.pick(c.Context(), s, plain)
	})
	c.Flags().BoolVar(&plain, "plain", false, "print a numbered list and read a number, as for a screen reader")
	return c
}

// pick shows the sandboxes on the terminal until the user leaves.
func (a *app) pick(ctx context.Context, s *sandbox.Service, plain bool) error {
	// ^C is a key on the screen, and else for the command that runs in the foreground.
	signal.Reset(unix.SIGINT, unix.SIGQUIT)
	signal.Notify(make(chan os.Signal, 1), unix.SIGINT, unix.SIGQUIT)
	o := picker.Options{
		In: a.in, Out: a.out.(*os.File), Age: age, Folder: filepath.Dir(s.Host.Store.Paths("any").Record), Default: s.Host.Config.DefaultTemplate,
		Refused: func(ctx context.Context, name string) ([]picker.Refusal, error) { return refusalsOf(ctx, s, name) },
		Loses: func(ctx context.Context, name string) error {
			record, err := s.Host.Store.Load(name)
			return cmp.Or(err, s.Work.NothingUnsaved(ctx, name, record.Plan.Workspaces()))
		},
	}
	for _, template := range byName(s.Host.Config) {
		o.Templates = append(o.Templates, picker.Template{Name: template.Name, Command: template.Agents[template.Name].Command})
	}
	var err, homeErr error
	o.Here, err = os.Getwd()
	o.Home, homeErr = os.UserHomeDir()
	if err := errors.Join(err, homeErr); err != nil {
		return err
	}
	if a.configFile != "" {
		o.Global = []string{"--config", a.configFile}
	}
	var noted sync.Mutex
	note := ""
	s.Notify = func(text string) { // stderr is the screen
		noted.Lock()
		defer noted.Unlock()
		note = text
	}
	s.Progress = func(string) func() { return func() {} }
	s.Work.Notify, s.Work.Progress = s.Notify, s.Progress
	o.List = func(ctx context.Context) ([]picker.Row, string, error) {
		all, err := s.List(ctx)
		rows := make([]picker.Row, len(all))
		for i, one := range all {
			rows[i] = picker.Row{
				Name: one.Name, Agent: dash(one.Agent), State: state(one), Branch: dash(one.Branch), Unsaved: unsaved(one),
				Refused: dash(positive(one.Refused)), Traffic: traffic(one), Ports: ports(one.Ports), Created: one.CreatedAt,
			}
		}
		for i, one := range all {
			if len(one.Pages) > 0 {
				rows[i].Page = one.Pages[0].Host
			}
		}
		noted.Lock()
		defer noted.Unlock()
		said := note
		note = ""
		return rows, said, err
	}
	if plain || os.Getenv("TERM") == "dumb" {
		return picker.Plain(ctx, o)
	}
	return picker.Run(ctx, o)
}

// traffic is what a sandbox sent and received.
func traffic(s sandbox.Status) string {
	if s.Bytes == 0 {
		return "-"
	}
	return term.Bytes(s.Bytes)
}

// refusalsOf are what a sandbox was refused, as status shows it.
func refusalsOf(ctx context.Context, s *sandbox.Service, name string) ([]picker.Refusal, error) {
	status, err := s.Status(ctx, name)
	all := make([]picker.Refusal, len(status.Refusals))
	for i, r := range status.Refusals {
		all[i].Text = sandbox.RefusalLine(r)
		if r.Allow != "" {
			all[i].Allow = []string{"--allow=" + r.Allow}
		}
		if r.Allow != "" && r.Mode != "" {
			all[i].Allow = append(all[i].Allow, string(r.Mode))
		}
	}
	return all, err
}
