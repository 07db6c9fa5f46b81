package meter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"

	"forage"
)

// maxLedger bounds a ledger's file, in bytes.
const maxLedger = 4 << 10

// ReadTotals reads what a Ledger wrote to path: nothing used when there is no
// file. A damaged one is an error, since a budget must not begin anew by it.
func ReadTotals(path string) (Totals, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return Totals{}, nil
	}
	if err != nil {
		return Totals{}, fmt.Errorf("reading what was used: %w", &os.PathError{Op: "open", Path: path, Err: err})
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	text := make([]byte, maxLedger)
	n, _ := file.Read(text) // what could not be read is no JSON
	var t Totals
	if err := json.Unmarshal(text[:n], &t); err != nil || !t.valid() {
		return Totals{}, forage.WithHint(fmt.Errorf("reading what was used: %s is damaged", path),
			"remove it to begin counting at zero")
	}
	return t, nil
}

func (t Totals) valid() bool {
	return t.Requests >= 0 && t.Bytes >= 0 && t.Tokens >= 0 && t.Cost >= 0 && !math.IsInf(t.Cost, 0)
}

// Ledger keeps an account's totals in a file, so that they outlive the process:
// what was used in the last seconds before it was killed may be missing.
type Ledger struct {
	account *Account
	path    string
	fail    func(error)
	stop    chan struct{}
	stopped sync.WaitGroup
	written Totals
}

// Keep writes what account has used to path, at most once every interval and only when it
// changed, until Close. What keeps it from being written goes to fail, if that is set.
func Keep(account *Account, path string, interval time.Duration, fail func(error)) *Ledger {
	l := &Ledger{account: account, path: path, fail: fail, stop: make(chan struct{}), written: account.Totals()}
	l.stopped.Go(func() { l.run(interval) })
	return l
}

// run sleeps for as long as nothing is used, so that an idle sandbox causes no wakeups.
func (l *Ledger) run(interval time.Duration) {
	for {
		select {
		case <-l.stop:
			return
		case <-l.account.changed:
		}
		select {
		case <-l.stop:
			return
		case <-time.After(interval): // what is used meanwhile is written together
		}
		if err := l.write(); err != nil && l.fail != nil {
			l.fail(err)
		}
	}
}

// write replaces the file, whole or not at all.
func (l *Ledger) write() error {
	now := l.account.Totals()
	if now == l.written {
		return nil
	}
	text, err := json.Marshal(now)
	if err == nil {
		err = renameio.WriteFile(l.path, append(text, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(l.path)))
	}
	if err != nil {
		return fmt.Errorf("keeping what was used: %w", err)
	}
	l.written = now
	return nil
}

// Close writes for the last time.
func (l *Ledger) Close() error {
	close(l.stop)
	l.stopped.Wait()
	return l.write()
}
