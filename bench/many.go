package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// many brings up many sandboxes and takes them down again.
func (b *bench) many(ctx context.Context) ([]row, error) {
	var names []string
	for i := range b.o.sandboxes {
		names = append(names, fmt.Sprintf("bench-many-%d", i))
	}
	at := 2 * runtime.NumCPU()
	start := time.Now()
	err := eachOf(at, names, func(name string) error {
		return b.forage("up", name, "-w", b.project, "--", "sleep", "infinity").run(ctx)
	})
	up := time.Since(start)
	if err != nil {
		return nil, errors.Join(err, b.forage("down", "--all", "--force").run(context.WithoutCancel(ctx)))
	}
	rows := []row{
		{what: fmt.Sprintf("%d sandboxes up, %d at a time", len(names), at), ours: short(up), note: short(up/time.Duration(len(names))) + " each"},
		b.memoryOfMany(ctx, names),
	}
	down, err := b.forage("down", "--all", "--force").times(context.WithoutCancel(ctx))
	if err != nil {
		return rows, err
	}
	return append(rows, row{what: fmt.Sprintf("%d sandboxes down, `down --all`", len(names)), ours: short(down), note: short(down/time.Duration(len(names))) + " each"}), nil
}

// memoryOfMany is the memory of one among many, which share the program's pages.
func (b *bench) memoryOfMany(ctx context.Context, names []string) row {
	r := row{what: fmt.Sprintf("memory of an idle sandbox among %d (PSS)", len(names))}
	var total int64
	for _, name := range names {
		p, err := b.processes(ctx, name)
		for _, pid := range []int{p.supervisor, p.guest} {
			var kib int64
			if err == nil {
				kib, err = b.pss(pid)
			}
			total += kib
		}
		if err != nil {
			r.note = oneLine(err.Error())
			return r
		}
	}
	mean := total / int64(len(names))
	r.ours, r.target = fmt.Sprintf("%.1f MB", float64(mean)*1.024/1000), verdict("at most 25 MB", mean*1024 <= 25e6)
	return r
}

// eachOf calls f for every name, some at once, and joins what went wrong.
func eachOf(at int, names []string, f func(string) error) error {
	next := make(chan string)
	errs := make([]error, at)
	var wg sync.WaitGroup
	for i := range at {
		wg.Go(func() {
			for name := range next {
				if err := f(name); err != nil && errs[i] == nil {
					errs[i] = fmt.Errorf("%s: %w", name, err)
				}
			}
		})
	}
	for _, name := range names {
		next <- name
	}
	close(next)
	wg.Wait()
	return errors.Join(errs...)
}
