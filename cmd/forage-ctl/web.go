package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/audit"
	"forage/internal/browse"
	"forage/internal/guest/guestclient"
	"forage/internal/hostexec"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
	"forage/internal/sandbox/work"
	"forage/internal/supervisor"
	"forage/internal/systemd"
	"forage/internal/term"
	"forage/internal/web"
	"forage/internal/workspace/review"
)

func newWeb(a *app) *cobra.Command {
	var o webOptions
	c := command("web", noArgs, func(c *cobra.Command, _ []string) error {
		if (o.cert == "") != (o.key == "") {
			return usageError(c, "--tls-cert and --tls-key belong together")
		}
		return runWeb(c.Context(), a, o)
	})
	c.Flags().StringVar(&o.listen, "listen", fmt.Sprintf("127.0.0.1:%d", forage.BoardPort), "listen on this `ADDRESS`; one that is not localhost needs TLS")
	c.Flags().StringVar(&o.cert, "tls-cert", "", "certificate `FILE`, with which it serves TLS")
	c.Flags().StringVar(&o.key, "tls-key", "", "its private key `FILE`")
	return c
}

type webOptions struct{ listen, cert, key string }

func runWeb(ctx context.Context, a *app, o webOptions) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	var certificate *tls.Certificate
	if o.cert != "" {
		pair, err := tls.LoadX509KeyPair(o.cert, o.key)
		if err != nil {
			return forage.Errorf(forage.ErrUsage, "reading the certificate: %w", err)
		}
		certificate = &pair
	}
	listeners, err := web.Listen(o.listen, certificate)
	if err != nil {
		return err
	}
	for _, listener := range listeners {
		defer listener.Close()
	}
	log := a.log(slog.LevelInfo)
	name, _, _ := net.SplitHostPort(o.listen)
	server, err := web.New(web.Options{
		Sandboxes: board{a}, Folder: filepath.Dir(service.Host.Store.Paths("any").Record), Log: log, Certificate: certificate, Name: name,
	})
	if err != nil {
		return err
	}
	if err := a.write("open " + term.Escape(server.Address(listeners[0].Addr())) + "\n"); err != nil {
		return err
	}
	if err := systemd.Notify(os.Getenv("NOTIFY_SOCKET"), "READY=1"); err != nil {
		log.Warn("telling the service manager", "error", err)
	}
	return server.Serve(ctx, listeners...)
}

// board is the user's sandboxes as the board reaches them. Each call reads configuration and records
// as they are then.
type board struct{ *app }

// open opens the sandboxes, and collects what there is to say about them.
func (b board) open() (*sandbox.Service, func() []string, error) {
	var mu sync.Mutex
	var notes []string
	note := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		notes = append(notes, text)
	}
	me, err := plan.Me()
	if err != nil {
		return nil, nil, err
	}
	service, err := sandbox.New(sandbox.Config{ConfigFile: b.configFile, Caller: me, Notify: note, Unconfigured: func(err error) {
		note("going on without the configuration: " + err.Error())
	}})
	return service, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return notes
	}, err
}

func (b board) List(ctx context.Context) ([]web.Row, []string, error) {
	s, notes, err := b.open()
	if err != nil {
		return nil, nil, err
	}
	all, err := s.List(ctx)
	home, _ := os.UserHomeDir() // without one, paths are whole
	rows := make([]web.Row, len(all))
	for i, one := range all {
		rows[i] = web.Row{
			Name: one.Name, Agent: one.Agent, State: state(one), Running: one.Status == string(forage.PhaseRunning), Reason: one.Reason,
			Template: one.Template, Workspace: atHome(home, cmp.Or(one.SourceRepo, one.Workspace)), Mode: string(one.Plan.Workspace.Mode),
			Branch: one.Branch, Unsaved: unsaved(one), Refused: one.Refused, Created: one.CreatedAt,
			Ports: ways(one.Name, one.Ports), Page: pageOf(one.Pages),
		}
	}
	return rows, notes(), err
}

// atHome is a path with ~ for the home folder.
func atHome(home, path string) string {
	if below, ok := strings.CutPrefix(path, home+"/"); ok && home != "" {
		return "~/" + below
	}
	return path
}

// pageOf is the last page that is asked for. What is on localhost is on another in the browser.
func pageOf(all []supervisor.Page) string {
	for _, asked := range all {
		if page, err := browse.Check(asked.URL); err == nil && page.Local == 0 {
			return page.URL
		}
	}
	return ""
}

// ways say what leads to ports: an agent can open many.
func ways(name string, all []supervisor.Port) (ways []string) {
	for i, p := range all {
		if i == 5 {
			return append(ways, fmt.Sprintf("%d more ports: forage-ctl status %s", len(all)-i, name))
		}
		way := fmt.Sprintf("port %d: forage-ctl forward %s %d", p.Port, name, p.Port)
		if p.Local != 0 {
			way = fmt.Sprintf("port %d: http://localhost:%d", p.Port, p.Local)
		}
		ways = append(ways, way)
	}
	return ways
}

func (b board) Refusals(ctx context.Context, name string) ([]web.Refusal, error) {
	s, _, err := b.open()
	if err != nil {
		return nil, err
	}
	status, err := s.Status(ctx, name)
	all := make([]web.Refusal, len(status.Refusals))
	for i, r := range status.Refusals {
		what, why, _ := strings.Cut(strings.TrimPrefix(sandbox.RefusalLine(r), "refused: "), "   ")
		all[i] = web.Refusal{Text: what, Allow: r.Allow, Mode: string(r.Mode)}
		if r.Allow == "" {
			all[i].Why = why
		}
	}
	return all, err
}

// maxSaid bounds what a browser is given of what a command prints, in bytes.
const maxSaid = 1 << 20

func (b board) Review(ctx context.Context, name string) (parts []web.Part, _ []string, err error) {
	s, notes, err := b.open()
	if err != nil {
		return nil, nil, err
	}
	err = s.Work.Diff(ctx, name, work.ReviewOptions{}, func(sessions []*review.Session) (whole bool, err error) {
		whole = true
		for _, session := range sessions {
			diffs, err := session.FileDiffs(ctx)
			if err != nil {
				return false, err
			}
			var shown []review.Change
			var early, late []web.File
			first, uncommitted := session.First(), map[string]bool{}
			for _, path := range session.Uncommitted {
				uncommitted[path] = true
			}
			for i, c := range session.Changes {
				switch {
				case diffs[i].Cut, diffs[i].Binary && first[c.Path]:
					whole = false
				case !diffs[i].Binary:
					shown = append(shown, c)
				}
				file := webFile(c, diffs[i])
				file.Uncommitted = uncommitted[c.Path]
				if first[c.Path] {
					early = append(early, file)
				} else {
					late = append(late, file)
				}
			}
			if err := session.MarkFiles(ctx, shown); err != nil {
				return false, err
			}
			said := session.Review
			said.Changes, said.Uncommitted = nil, nil
			parts = append(parts, web.Part{Part: session.Part, Content: session.All().Content, Review: said, Files: append(early, late...)})
		}
		return whole, nil
	})
	return parts, notes(), err
}

// webFile is a change as the page shows it.
func webFile(c review.Change, d review.FileDiff) web.File {
	f := web.File{
		ID: c.ID(), Name: term.Escape(c.Path), What: c.What(), Added: c.Added, Removed: c.Removed,
		Binary: c.Binary || d.Binary, Cut: d.Cut, Divisible: c.Divisible() && !d.Cut && len(d.Hunks) > 1,
	}
	for _, h := range d.Hunks {
		hunk := web.Hunk{Head: h.Head()}
		for _, line := range h.Lines {
			if hunk.Lines = append(hunk.Lines, line.String()); line.Open {
				hunk.Lines = append(hunk.Lines, `\ no end of line`)
			}
		}
		f.Hunks = append(f.Hunks, hunk)
	}
	return f
}

// beginning keeps the first bytes of what is written to it.
type beginning struct {
	bytes.Buffer
	left int
}

func (b *beginning) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.Buffer.Write(p[:n])
	return len(p), nil
}

func (b board) Apply(ctx context.Context, name string, chosen []web.Chosen, dryRun bool) (string, error) {
	s, notes, err := b.open()
	if err != nil {
		return "", err
	}
	changed := forage.Errorf(forage.ErrRefused, "the work has changed since you looked: look again")
	picks := map[string]*review.Pick{}
	err = s.Work.Diff(ctx, name, work.ReviewOptions{}, func(sessions []*review.Session) (bool, error) {
		for _, session := range sessions {
			at := slices.IndexFunc(chosen, func(c web.Chosen) bool { return c.Part == session.Part })
			if at < 0 {
				continue
			}
			all := session.All()
			if chosen[at].Content != all.Content {
				return false, changed
			}
			pick := &review.Pick{}
			changes := map[string]review.Change{}
			for _, c := range session.Changes {
				changes[c.ID()] = c
			}
			for _, file := range chosen[at].Files {
				c, ok := changes[file.ID]
				if !ok {
					return false, changed
				}
				pick.Files = append(pick.Files, review.Picked{Change: c, Hunks: file.Hunks})
			}
			if picks[session.Part] = pick; len(pick.Files) == 0 {
				picks[session.Part] = &all
			}
		}
		return false, nil // it is not shown
	})
	if err == nil && len(picks) < max(1, len(chosen)) {
		err = changed
	}
	if err != nil {
		return "", err
	}
	done, err := s.Work.Apply(ctx, name, work.ApplyOptions{Picks: picks, DryRun: dryRun})
	var said bytes.Buffer
	for _, d := range done {
		printApplied(&app{out: &said, err: &said}, d, dryRun, len(done) > 1)
	}
	for _, note := range notes() {
		fmt.Fprintf(&said, "note: %s\n", term.Escape(note))
	}
	return strings.TrimSpace(said.String()), err
}

func (b board) Loses(ctx context.Context, name string) (string, error) {
	s, _, err := b.open()
	if err != nil {
		return "", err
	}
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return "", err
	}
	err = s.Work.NothingUnsaved(ctx, name, record.Plan.Workspaces())
	if errors.Is(err, forage.ErrRefused) {
		return err.Error(), nil
	}
	return "", err
}

func (b board) Choices() (choices web.Choices, err error) {
	s, _, err := b.open()
	if err != nil {
		return choices, err
	}
	choices.Default = s.Host.Config.DefaultTemplate
	for _, template := range byName(s.Host.Config) {
		choices.Templates = append(choices.Templates, web.Template{Name: template.Name, Command: template.Agents[template.Name].Command})
	}
	records, _ := s.Host.Readable() // what can be read is offered
	for _, record := range records {
		choices.Folders = append(choices.Folders, cmp.Or(record.SourceRepo, record.Workspace))
	}
	slices.Sort(choices.Folders)
	choices.Folders = slices.Compact(choices.Folders)
	choices.Home, err = os.UserHomeDir()
	return choices, err
}

func (b board) Drop(ctx context.Context, name, file string, content io.Reader) (string, error) {
	s, _, err := b.open()
	if err != nil {
		return "", err
	}
	return s.Drop(ctx, name, file, content)
}

func (b board) Connect(ctx context.Context, name string) (*guestclient.Client, error) {
	s, _, err := b.open()
	if err != nil {
		return nil, err
	}
	return s.Gateway().Connect(ctx, name)
}

func (b board) Record(ctx context.Context, name string, event audit.Event) error {
	s, _, err := b.open()
	if err != nil {
		return err
	}
	return s.Gateway().Record(ctx, name, event)
}

func (b board) Screen(name string) func(io.Writer) *term.Controls {
	s, _, err := b.open()
	if err != nil {
		return func(out io.Writer) *term.Controls { return &term.Controls{Out: out} }
	}
	return s.Gateway().Screen(name)
}

func (board) AttachCommand(readOnly bool) []string { return sandbox.Gateway{}.AttachCommand(readOnly) }

// Run runs one of this program's commands beside this process.
func (b board) Run(args ...string) (string, error) {
	if b.configFile != "" {
		args = append([]string{"--config", b.configFile}, args...)
	}
	said := beginning{left: maxSaid}
	cmd := hostexec.Self(args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	return strings.TrimSpace(said.String()), err
}
