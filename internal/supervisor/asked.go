package supervisor

import (
	"errors"
	"slices"
	"sync"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/browse"
	"forage/internal/notify"
)

// An agent may ask as often as it likes: the last pages are kept, and one is taken in a while.
const (
	maxPages  = 5
	pagePause = time.Second
)

// Page is a page that a program inside asks the user to open.
type Page struct {
	URL   string    `json:"url"`  // of the characters of RFC 3986 alone
	Host  string    `json:"host"` // of it, in ASCII
	Asked time.Time `json:"asked"`
}

// asked are the pages that the user has not opened yet, the last one first.
type asked struct {
	mu    sync.Mutex
	pages []Page
}

func (a *asked) list() []Page {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.pages)
}

// askToOpen keeps the address of a page for the user, who is told of the first one. The error is
// for the program inside.
func (s *Sandbox) askToOpen(address string) error {
	checked, err := browse.Check(address)
	if err != nil {
		return err
	}
	a, page := &s.asked, Page{URL: checked.URL, Host: checked.Host, Asked: time.Now()}
	a.mu.Lock()
	defer a.mu.Unlock()
	if slices.ContainsFunc(a.pages, func(p Page) bool { return p.URL == page.URL }) {
		return nil
	}
	if len(a.pages) > 0 && page.Asked.Sub(a.pages[0].Asked) < pagePause {
		return errors.New("one page a second can be asked for")
	}
	if err := s.Record(opening("ask", page)); err != nil {
		return errors.New("the host can't record it")
	}
	if len(a.pages) == 0 {
		go s.notify(notify.Event{Sandbox: s.setup.Plan.Name, State: notify.Asks})
	}
	a.pages = slices.Insert(a.pages[:min(len(a.pages), maxPages-1)], 0, page)
	return nil
}

// opened takes a page from the list, once it is on record that the user opens it, or will not.
func (s *Sandbox) opened(url string, allow bool) error {
	a := &s.asked
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.IndexFunc(a.pages, func(p Page) bool { return p.URL == url })
	if at < 0 {
		return forage.Errorf(forage.ErrNotFound, "that page is not asked for any more")
	}
	verdict := "deny"
	if allow {
		verdict = "allow"
	}
	if err := s.Record(opening(verdict, a.pages[at])); err != nil {
		return err
	}
	a.pages = slices.Delete(a.pages, at, at+1)
	return nil
}

// opening is a line of the audit log. The rest of the address may hold a secret.
func opening(verdict string, page Page) audit.Event {
	return audit.Event{Kind: audit.Exec, Verdict: verdict, Method: "open", Host: page.Host}
}
