package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pair are the two processes of ours behind one sandbox.
type pair struct{ supervisor, guest int }

// processes finds them: the supervisor is the guest's parent.
func (b *bench) processes(ctx context.Context, name string) (pair, error) {
	out, err := b.forage("status", name, "-o", "json").output(ctx)
	if err != nil {
		return pair{}, err
	}
	var status struct {
		GuestPID int `json:"guestPid"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return pair{}, err
	}
	if status.GuestPID == 0 {
		return pair{}, errors.New("status tells no guestPid")
	}
	parent, err := statusField(fmt.Sprintf("/proc/%d/status", status.GuestPID), "PPid:")
	return pair{supervisor: int(parent), guest: status.GuestPID}, err
}

// statusField reads a number of a proc status file.
func statusField(path, field string) (int64, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return 0, err
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if v, ok := strings.CutPrefix(line, field); ok {
			return strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		}
	}
	return 0, fmt.Errorf("%s has no %s", path, field)
}

// pss is a process's proportional memory in KiB. Forage's processes are closed to their
// own user, so root reads it for us, where root started this.
func (b *bench) pss(pid int) (int64, error) {
	if b.reader == nil {
		if kib := readPSS(pid); kib >= 0 {
			return kib, nil
		}
		return 0, errors.New("the kernel shows the memory of these processes to root alone: start the benchmark as root")
	}
	if _, err := fmt.Fprintln(b.reader, pid); err != nil {
		return 0, err
	}
	if !b.readLines.Scan() {
		return 0, errors.New("the root process does not answer")
	}
	kib, err := strconv.ParseInt(b.readLines.Text(), 10, 64)
	if err == nil && kib < 0 {
		err = fmt.Errorf("no process %d", pid)
	}
	return kib, err
}

// switches counts how often the threads of a process were scheduled: each wake-up
// ends in one voluntary switch.
func switches(pid int) (int64, error) {
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil {
		return 0, err
	}
	if len(tasks) == 0 {
		return 0, fmt.Errorf("process %d is gone", pid)
	}
	var total int64
	for _, task := range tasks {
		n, err := statusField(task, "voluntary_ctxt_switches:")
		if errors.Is(err, os.ErrNotExist) {
			continue // the thread has ended
		}
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
}

// idle is what a sandbox costs that does nothing.
func (b *bench) idle(ctx context.Context) ([]row, error) {
	const name = "bench-idle"
	return b.withSandbox(ctx, name, nil, func() ([]row, error) {
		p, err := b.processes(ctx, name)
		if err != nil {
			return nil, err
		}
		select { // what follows a start (collection, threads going to sleep) is not idling
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(5 * time.Second):
		}
		wakes, err := b.wakeUps(ctx, p)
		if err != nil {
			return nil, err
		}
		return []row{b.memory(p), wakes}, nil
	})
}

func (b *bench) memory(p pair) row {
	r := row{what: "memory of an idle sandbox, supervisor and guest (PSS)"}
	supervisor, err := b.pss(p.supervisor)
	guest, err2 := b.pss(p.guest)
	if err := errors.Join(err, err2); err != nil {
		r.note = oneLine(err.Error())
		return r
	}
	total := supervisor + guest
	r.ours = fmt.Sprintf("%.1f MB", float64(total)*1.024/1000)
	r.target = verdict("at most 12 MB", total*1024 <= 12e6)
	r.note = fmt.Sprintf("supervisor %.1f, guest %.1f", float64(supervisor)*1.024/1000, float64(guest)*1.024/1000)
	return r
}

func (b *bench) wakeUps(ctx context.Context, p pair) (row, error) {
	var before, after [2]int64
	var err error
	for i, pid := range []int{p.supervisor, p.guest} {
		if before[i], err = switches(pid); err != nil {
			return row{}, err
		}
	}
	select {
	case <-ctx.Done():
		return row{}, context.Cause(ctx)
	case <-time.After(time.Duration(b.o.idle) * time.Second):
	}
	for i, pid := range []int{p.supervisor, p.guest} {
		if after[i], err = switches(pid); err != nil {
			return row{}, err
		}
	}
	each := [2]float64{float64(after[0]-before[0]) / float64(b.o.idle), float64(after[1]-before[1]) / float64(b.o.idle)}
	return row{
		what: "wake-ups of an idle sandbox, supervisor and guest", ours: fmt.Sprintf("%.1f a second", each[0]+each[1]),
		target: verdict("at most 1 a second", each[0]+each[1] <= 1),
		note:   fmt.Sprintf("supervisor %.1f, guest %.1f, over %d s", each[0], each[1], b.o.idle),
	}, nil
}
