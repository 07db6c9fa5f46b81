package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"

	"forage/internal/egress"
	"forage/internal/sandbox"
	"forage/internal/term"
)

type topOptions struct {
	interval time.Duration
	once     bool
	format   format
}

func newTop(a *app) *cobra.Command {
	var o topOptions
	c := command("top", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error { return runTop(c, a, o, args) })
	c.ValidArgsFunction = a.completeNames
	c.Flags().DurationVar(&o.interval, "interval", 2*time.Second, "draw it anew this often")
	c.Flags().BoolVar(&o.once, "once", false, "print it once, on a terminal too")
	o.format.add(c)
	return c
}

func runTop(c *cobra.Command, a *app, o topOptions, names []string) error {
	if o.interval < 100*time.Millisecond {
		return usageError(c, "--interval %v: must be 100ms or longer", o.interval)
	}
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	if _, _, isTerminal := a.screen(); o.format.json(a) || o.once || !isTerminal {
		traffic, err := service.Traffic(c.Context(), names)
		return errors.Join(err, o.format.show(a, traffic, func() error {
			if err != nil && len(traffic) == 0 {
				return nil
			}
			return a.write(topText(traffic, nil, 0))
		}))
	}
	return watchTop(c.Context(), a, service, o, names)
}

// screen is the size of the terminal that is written to.
func (a *app) screen() (width, height int, ok bool) {
	out, isFile := a.out.(interface{ Fd() uintptr })
	if !isFile {
		return 0, 0, false
	}
	width, height, err := xterm.GetSize(int(out.Fd()))
	return width, height, err == nil
}

// Sequences of a terminal (ECMA-48): the alternate screen and its cursor, and back.
const (
	screenBegin = "\x1b[?1049h\x1b[?25l"
	screenHome  = "\x1b[H\x1b[2J"
	screenEnd   = "\x1b[?25h\x1b[?1049l"
)

// watchTop draws what is going on until ctx ends.
func watchTop(ctx context.Context, a *app, service *sandbox.Service, o topOptions, names []string) (err error) {
	if err := a.write(screenBegin); err != nil {
		return err
	}
	defer func() { err = firstError(err, a.write(screenEnd)) }()
	quit, restore := a.quitKey()
	defer restore()
	ticker := time.NewTicker(o.interval)
	defer ticker.Stop()
	var before map[hostOf]egress.HostTraffic
	last := time.Now()
	for {
		traffic, err := service.Traffic(ctx, names)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		now := time.Now()
		text := topText(traffic, before, now.Sub(last))
		if err != nil {
			text += "\n" + term.Escape(err.Error()) + "\n"
		}
		if err := a.write(screenHome + a.cut(text)); err != nil {
			return err
		}
		before, last = byHost(traffic), now
		select {
		case <-ticker.C:
		case <-quit:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// quitKey is closed when q is typed. Keys come one by one, and are not shown, until restore is
// called.
func (a *app) quitKey() (quit <-chan struct{}, restore func()) {
	fd := int(a.in.Fd())
	before, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return nil, func() {}
	}
	keys := *before
	keys.Lflag &^= unix.ICANON | unix.ECHO
	keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
	if unix.IoctlSetTermios(fd, unix.TCSETS, &keys) != nil {
		return nil, func() {}
	}
	typed := make(chan struct{})
	go func() { // until the program ends: nothing else reads its input
		for key := make([]byte, 1); ; {
			if n, err := a.in.Read(key); err != nil || n == 0 {
				return
			}
			if key[0] == 'q' || key[0] == 'Q' {
				close(typed)
				return
			}
		}
	}()
	return typed, func() { unix.IoctlSetTermios(fd, unix.TCSETS, before) }
}

// cut is the part of text that fits on the terminal.
func (a *app) cut(text string) string {
	width, height, ok := a.screen()
	if !ok || width < 1 || height < 1 {
		return text
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	lines = lines[:min(len(lines), height)]
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return strings.Join(lines, "\r\n")
}

type hostOf struct{ sandbox, host string }

func byHost(traffic []sandbox.Traffic) map[hostOf]egress.HostTraffic {
	hosts := make(map[hostOf]egress.HostTraffic)
	for _, t := range traffic {
		for _, h := range t.Hosts {
			hosts[hostOf{t.Sandbox, h.Host}] = h
		}
	}
	return hosts
}

// topText is what top shows. before is what was shown last, so long ago; nil shows no
// rates. Names of hosts come from inside, and are escaped.
func topText(traffic []sandbox.Traffic, before map[hostOf]egress.HostTraffic, since time.Duration) string {
	var text bytes.Buffer
	for i, t := range traffic {
		if i > 0 {
			text.WriteByte('\n')
		}
		fmt.Fprintln(&text, term.Escape(topHead(t)))
		if len(t.Hosts) > 0 {
			table := term.NewTable("  HOST", "REQUESTS", "DENIED", "OPEN", "IN", "OUT", "IN/S", "OUT/S", "TOKENS", "COST")
			for _, h := range t.Hosts {
				in, out := "-", "-"
				if was, ok := before[hostOf{t.Sandbox, h.Host}]; ok && since > 0 {
					in, out = perSecond(h.BytesIn-was.BytesIn, since), perSecond(h.BytesOut-was.BytesOut, since)
				}
				tokens, cost := "-", "-"
				if h.Tokens > 0 {
					tokens, cost = fmt.Sprint(h.Tokens), fmt.Sprintf("$%.4f", h.Cost)
				}
				table.Row("  "+h.Host, fmt.Sprint(h.Requests), fmt.Sprint(h.Denied), fmt.Sprint(h.Open),
					term.Bytes(h.BytesIn), term.Bytes(h.BytesOut), in, out, tokens, cost)
			}
			_ = table.Write((&text)) // into memory
		}
	}
	if len(traffic) == 0 {
		text.WriteString("no sandbox is running\n")
	}
	return text.String()
}

// topHead is what a sandbox has used, of what it may use.
func topHead(t sandbox.Traffic) string {
	words := []string{t.Sandbox + ":"}
	if !t.Running {
		words = append(words, "not running,")
	}
	used, bounds := t.Totals, t.Bounds
	part := func(text string, bounded bool, of string) {
		if bounded {
			text += of
		}
		words = append(words, text+",")
	}
	part(fmt.Sprintf("%d requests", used.Requests), bounds.RequestsPerMinute > 0, fmt.Sprintf(" (at most %d a minute)", bounds.RequestsPerMinute))
	part(fmt.Sprintf("%d connections", t.Connections), bounds.ConnectionsMax > 0, fmt.Sprintf(" of %d", bounds.ConnectionsMax))
	part(term.Bytes(used.Bytes), bounds.BytesMax > 0, " of "+term.Bytes(bounds.BytesMax))
	part(fmt.Sprintf("%d tokens", used.Tokens), bounds.MaxTokens > 0, fmt.Sprintf(" of %d", bounds.MaxTokens))
	part(fmt.Sprintf("$%.2f", used.Cost), bounds.MaxCost > 0, fmt.Sprintf(" of $%.2f", bounds.MaxCost))
	return strings.TrimSuffix(strings.Join(words, " "), ",")
}

func perSecond(n int64, since time.Duration) string {
	return term.Bytes(int64(float64(max(n, 0)) / since.Seconds()))
}
