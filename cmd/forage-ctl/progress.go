package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	xterm "golang.org/x/term"

	"forage/internal/term"
)

// progressAfter is how long something takes before the terminal says so, and how often it says so
// again.
const progressAfter = time.Second

// progress is a line on the terminal that says what is going on, once that takes long. Elsewhere it
// is nothing.
type progress struct {
	a     *app
	what  string
	since time.Time

	mu    sync.Mutex
	timer *time.Timer // nil: no terminal, or it has ended
	said  string
}

// progress begins to say that what is going on, until end is called.
func (a *app) progress(what string) *progress {
	p := &progress{a: a, what: what, since: time.Now()}
	if file, ok := a.err.(*os.File); ok && !a.json && xterm.IsTerminal(int(file.Fd())) {
		p.mu.Lock() // show waits for the timer to be there
		defer p.mu.Unlock()
		p.timer = time.AfterFunc(progressAfter, p.show)
	}
	return p
}

// told is progress for those who have no more to say.
func (a *app) told(what string) (end func()) { return a.progress(what).end }

// toldOf is progress that says how far it is.
func (a *app) toldOf(what string) (say func(string), end func()) {
	p := a.progress(what)
	return p.say, p.end
}

// say adds how far it is.
func (p *progress) say(how string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.said = how
}

func (p *progress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	text := fmt.Sprintf("%s: %v", p.what, time.Since(p.since).Truncate(progressAfter))
	if p.said != "" {
		text += ", " + p.said
	}
	text = term.Escape(text)
	if width, _, err := xterm.GetSize(int(p.a.err.(*os.File).Fd())); err == nil && width > 1 { // a line that breaks can't be taken away
		runes := []rune(text)
		text = string(runes[:max(0, min(len(runes), width-1))])
	}
	p.a.line.Lock()
	defer p.a.line.Unlock()
	p.a.clearLine()
	fmt.Fprint(p.a.err, text)
	p.a.shown = true
	p.timer.Reset(progressAfter)
}

// clearLine takes the progress line away. The caller holds a.line.
func (a *app) clearLine() {
	if a.shown {
		fmt.Fprint(a.err, "\r\x1b[K")
		a.shown = false
	}
}

// end takes the line away. It may be called again.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.timer == nil {
		return
	}
	p.timer.Stop()
	p.timer = nil
	p.a.line.Lock()
	defer p.a.line.Unlock()
	p.a.clearLine()
}
