package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"forage/internal/browse"
	"forage/internal/hostexec"
	"forage/internal/sandbox"
	"forage/internal/supervisor"
)

func newOpen(a *app) *cobra.Command {
	var f format
	c := a.named("open", a.serviceAnyway, func(c *cobra.Command, s *sandbox.Service, name string) error {
		pages, ports, err := s.Pages(c.Context(), name)
		if err != nil {
			return err
		}
		if f.json(a) || !a.interactive() {
			return f.show(a, pages, func() error {
				for _, page := range pages {
					if err := a.write(page.URL + "\n"); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if len(pages) == 0 {
			return a.write(name + " asks for no page\n")
		}
		for _, page := range pages {
			if err := a.openPage(c.Context(), s, name, page, ports); err != nil {
				return err
			}
		}
		return nil
	})
	f.add(c)
	return c
}

// browser is the program that shows a page where the user sits; "" where there is none. The user's
// own counts (an editor that works over SSH sets one), if no other can be found in its place.
func browser() string {
	if own := os.Getenv("BROWSER"); filepath.IsAbs(own) {
		return own
	}
	if os.Getenv("SSH_CONNECTION") == "" && (os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != "") {
		return "xdg-open"
	}
	return ""
}

// openPage shows a page's whole address and opens it if the user says so. What the address says of
// a port on loopback means the sandbox's: that is forwarded first, so that nothing else is reached.
func (a *app) openPage(ctx context.Context, s *sandbox.Service, name string, asked supervisor.Page, ports []supervisor.Port) error {
	page, err := browse.Check(asked.URL)
	if err != nil {
		return err
	}
	inside := slices.IndexFunc(ports, func(p supervisor.Port) bool { return p.Port == page.Port() })
	forward := inside >= 0 && ports[inside].Local != page.Port()
	text := fmt.Sprintf("%s asks to open a page of %s:\n\n%s\n\n", name, page, page.URL)
	switch {
	case page.Local != 0 && inside < 0:
		text += fmt.Sprintf("Nothing inside listens on port %d: it can't be opened.\n", page.Local)
	case page.Callback != 0 && inside < 0:
		text += fmt.Sprintf("It comes back to port %d, on which nothing inside listens.\n", page.Callback)
	case page.Callback != 0 && page.Local == 0:
		text += fmt.Sprintf("It comes back to port %d, which will lead into the sandbox.\n", page.Callback)
	}
	if err := a.write(text); err != nil || page.Local != 0 && inside < 0 {
		return cmp.Or(err, s.Opened(ctx, name, asked.URL, false))
	}
	question := "Open it in your browser?"
	if browser() == "" {
		question = "There is no browser here: copy the address. Is it copied?"
	}
	allow := a.confirm(question)
	if err := s.Opened(ctx, name, asked.URL, allow); err != nil || !allow {
		return err
	}
	if !forward {
		return a.showPage(page)
	}
	return s.ForwardWhile(ctx, name, page.Port(), func(f sandbox.Forwarding) error {
		note := fmt.Sprintf("localhost:%d -> %s, until nothing inside listens there, or Ctrl-C\n", f.Local, name)
		if browser() == "" {
			note += fmt.Sprintf("for a browser on another machine: ssh -N -L %d:localhost:%d THIS-MACHINE\n", f.Local, f.Local)
		}
		return cmp.Or(a.write(note), a.showPage(page))
	})
}

// showPage shows a page in the browser, if there is one.
func (a *app) showPage(page browse.Page) error {
	if browser() == "" {
		return nil
	}
	if err := hostexec.Leave(browser(), page.URL); err != nil {
		a.note(browser() + ": " + err.Error() + ": copy the address into your browser")
	}
	return nil
}
