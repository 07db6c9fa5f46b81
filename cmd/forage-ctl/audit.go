package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"forage"
	"forage/internal/audit"
	"forage/internal/sandbox"
	"forage/internal/term"
)

type auditOptions struct {
	follow, denied bool
	since          sinceValue
	lines          int
	format         format
}

func newAudit(a *app) *cobra.Command {
	var o auditOptions
	c := command("audit", cobra.ArbitraryArgs, func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			if err := oneName(c, args); err != nil {
				return err
			}
		}
		if c.Flags().Changed("lines") && o.lines < 0 {
			return usageError(c, "--lines %d: must not be negative", o.lines)
		}
		return runAudit(c.Context(), a, &o, args)
	})
	c.ValidArgsFunction = a.completeName
	c.Flags().Var(&o.since, "since", "only what happened in the last `DURATION|TIME` (1h, 15:04, 2026-01-15)")
	c.Flags().IntVarP(&o.lines, "lines", "n", -1, "show the last `N` events only")
	c.Flags().BoolVarP(&o.follow, "follow", "f", false, "go on as more happens")
	c.Flags().BoolVar(&o.denied, "denied", false, "show only what was denied")
	o.format.add(c)
	c.AddCommand(newAuditVerify(a))
	return c
}

func newAuditVerify(a *app) *cobra.Command {
	var f format
	var file string
	c := command("audit verify", nil, func(_ *cobra.Command, args []string) error {
		name, path := file, file
		if file == "" {
			service, err := a.serviceAnyway()
			if err == nil {
				name = args[0]
				path, err = service.AuditPath(name)
			}
			if err != nil {
				return err
			}
		}
		events, err := audit.VerifyFile(path)
		if err != nil {
			return fmt.Errorf("verifying the audit log of %q, of which %d events are intact: %w", name, events, err)
		}
		return f.show(a, map[string]any{"sandbox": name, "events": events, "intact": true}, func() error {
			return a.write(fmt.Sprintf("%s: %d events, intact\n", term.Escape(name), events))
		})
	})
	c.Args = func(c *cobra.Command, args []string) error {
		if file != "" {
			return noArgs(c, args)
		}
		return oneName(c, args)
	}
	c.ValidArgsFunction = a.completeName
	c.Flags().StringVar(&file, "file", "", "check the log in `FILE`, such as one of the proxy's")
	f.add(c)
	return c
}

func runAudit(ctx context.Context, a *app, o *auditOptions, names []string) error {
	service, err := a.serviceAnyway()
	if err != nil {
		return err
	}
	paths, missing := auditPaths(service, names, o.follow) // what can't be shown doesn't hold up the rest
	filter := audit.Filter{Denied: o.denied, Since: o.since.Time}
	show := a.printEvent
	if o.format.json(a) {
		lines := json.NewEncoder(a.out)
		show = func(e audit.Event) error { return lines.Encode(e) }
	}
	if o.follow && o.lines < 0 {
		return firstError(missing, followAll(ctx, paths, filter, show))
	}
	failed := []error{missing}
	var last []audit.Event
	keepLast := func() {
		slices.SortStableFunc(last, func(a, b audit.Event) int { return a.Time.Compare(b.Time) })
		last = slices.Clone(last[max(0, len(last)-max(0, o.lines)):])
	}
	for _, path := range paths {
		for event, err := range audit.EventsOf(path, filter) {
			switch {
			case err != nil:
				failed = append(failed, err) // the last that it gives
			case o.lines < 0:
				if err := show(event); err != nil {
					return err
				}
			default:
				if last = append(last, event); len(last) > 2*o.lines+1000 {
					keepLast()
				}
			}
		}
	}
	keepLast()
	missing = errors.Join(failed...)
	if o.follow {
		if filter.Since = time.Now(); len(last) > 0 {
			filter.Since = last[0].Time
		}
		return firstError(missing, followAll(ctx, paths, filter, show))
	}
	for _, event := range last {
		if err := show(event); err != nil {
			return err
		}
	}
	return missing
}

// sinceValue is a time that is given as such, or as how long ago it is.
type sinceValue struct {
	time.Time
	text string
}

func (s *sinceValue) String() string { return s.text }
func (s *sinceValue) Type() string   { return "DURATION|TIME" }

func (s *sinceValue) Set(text string) error {
	at, ok := parseSince(text, time.Now())
	if !ok {
		return errors.New("must be how long ago (90s, 2h, 3d) or a time (15:04, 2026-01-15, 2026-01-15T15:04:05Z)")
	}
	s.Time, s.text = at, text
	return nil
}

// parseSince reads how long before now, or when in the time zone of now; 15:04 is the last time
// that it was that late.
func parseSince(text string, now time.Time) (time.Time, bool) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.ParseUint(days, 10, 16); err == nil {
			return now.AddDate(0, 0, -int(n)), true
		}
	}
	if ago, err := time.ParseDuration(text); err == nil {
		return now.Add(-ago), ago >= 0
	}
	for _, layout := range []string{time.RFC3339, time.DateOnly, time.DateTime, "2006-01-02 15:04", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if at, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			return at, true
		}
	}
	for _, layout := range []string{"15:04", time.TimeOnly} {
		if clock, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), clock.Second(), 0, now.Location())
			if at.After(now) {
				at = at.AddDate(0, 0, -1)
			}
			return at, true
		}
	}
	return time.Time{}, false
}

// auditPaths are the logs of those sandboxes; the error names the others. Without names they are
// all logs, also of runs that have ended, or all that something may be written to.
func auditPaths(service *sandbox.Service, names []string, written bool) ([]string, error) {
	var failed []error
	all := len(names) == 0
	if all {
		list := service.AuditNames
		if written {
			list = service.Names
		}
		var err error
		names, err = list()
		failed = append(failed, err)
	}
	var paths []string
	for _, name := range names {
		path, err := service.AuditPath(name)
		switch {
		case err == nil:
			paths = append(paths, path)
		case all && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, forage.ErrNotFound)): // nothing happened yet, or it is gone meanwhile
		default:
			failed = append(failed, err)
		}
	}
	return paths, errors.Join(failed...)
}

// followAll shows the events of several logs as they are written, until ctx ends.
func followAll(ctx context.Context, paths []string, filter audit.Filter, show func(audit.Event) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var following sync.WaitGroup
	var showing sync.Mutex
	for _, path := range paths {
		following.Go(func() {
			err := audit.Follow(ctx, path, filter, func(e audit.Event) error {
				showing.Lock()
				defer showing.Unlock()
				return show(e)
			})
			if err != nil {
				cancel(err)
			}
		})
	}
	following.Wait()
	return context.Cause(ctx)
}

// printEvent prints one event in a line. Hosts, paths and reasons come from
// inside a sandbox.
func (a *app) printEvent(e audit.Event) error {
	_, err := fmt.Fprintf(a.out, "%s  %-12s  %-9s  %-5s  %s\n",
		e.Time.Local().Format(time.DateTime), term.Escape(e.Sandbox), e.Kind, dash(e.Verdict), term.Escape(eventText(e)))
	return err
}

// eventText is what an event is about, and why it was decided so.
func eventText(e audit.Event) string {
	host := e.Host
	if e.Port != 0 {
		host = net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
	}
	var words []string
	add := func(is bool, format string, args ...any) {
		if is {
			words = append(words, fmt.Sprintf(format, args...))
		}
	}
	add(e.Method != "", "%s", oneWord(e.Method))
	add(host+e.Path != "", "%s", oneWord(host+e.Path))
	add(e.Rule != "", "[%s]", e.Rule)
	add(e.Reason != "", "%s", e.Reason)
	// How it ended and what it took.
	add(e.Monitored, "(let through: monitor mode)")
	add(e.Status != 0, "status %d", e.Status)
	add(e.Millis != 0, "after %v", time.Duration(e.Millis)*time.Millisecond)
	add(e.BytesIn+e.BytesOut > 0, "%d in, %d out", e.BytesIn, e.BytesOut)
	add(e.Secret != "" && e.Kind == audit.Secret, "(secret %s)", e.Secret)
	add(e.Secret != "" && e.Kind != audit.Secret, "with secret %s", e.Secret)
	add(e.TokensIn+e.TokensOut > 0, "%d tokens in, %d out of %s for $%.4f",
		e.TokensIn, e.TokensOut, cmp.Or(e.Model, "a model without a name"), e.Cost)
	return strings.Join(words, " ")
}

// oneWord quotes text with spaces in it: it must not look like the words that follow.
func oneWord(text string) string {
	if strings.ContainsFunc(text, unicode.IsSpace) {
		return strconv.Quote(text)
	}
	return text
}
