package guestclient

import (
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/deadline"
)

// signalled is a channel that takes down which signals are sent over it.
type signalled struct {
	ssh.Channel
	names []string
}

func (s *signalled) SendRequest(_ string, _ bool, payload []byte) (bool, error) {
	var signal struct{ Name string }
	err := ssh.Unmarshal(payload, &signal)
	s.names = append(s.names, signal.Name)
	return true, err
}

// A second signal kills, unless it came at once, as timeout(1) sends it. One that asks us to end
// does, too, when the program has not ended in time.
func TestSignals(t *testing.T) {
	for name, test := range map[string]struct {
		signals []unix.Signal
		apart   time.Duration
		want    []string
	}{
		"twice at once":   {[]unix.Signal{unix.SIGINT, unix.SIGINT}, 0, []string{"INT"}},
		"twice soon":      {[]unix.Signal{unix.SIGINT, unix.SIGINT}, impatience, []string{"INT"}},
		"twice":           {[]unix.Signal{unix.SIGINT, unix.SIGINT}, 2 * impatience, []string{"INT", "KILL"}},
		"an ignored INT":  {[]unix.Signal{unix.SIGINT}, time.Hour, []string{"INT"}},
		"an ignored TERM": {[]unix.Signal{unix.SIGTERM}, deadline.End + 1, []string{"TERM", "KILL"}},
		"an ignored HUP":  {[]unix.Signal{unix.SIGHUP}, deadline.End + 1, []string{"HUP", "KILL"}},
		"a TERM in time":  {[]unix.Signal{unix.SIGTERM}, deadline.End - 1, []string{"TERM"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sent signalled
				r := &run{
					client: &Client{}, channel: &sent, ended: make(chan struct{}),
					received: make(chan os.Signal), toTell: make(chan message, maxToTell),
				}
				go r.telling()
				go r.signals(t.Context())
				defer close(r.ended)
				for _, sig := range test.signals {
					r.received <- sig
					time.Sleep(test.apart)
				}
				synctest.Wait()
				if !slices.Equal(sent.names, test.want) {
					t.Errorf("sent %q, want %q", sent.names, test.want)
				}
			})
		})
	}
}
