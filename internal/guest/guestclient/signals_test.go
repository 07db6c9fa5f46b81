package guestclient

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"
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

// A second signal kills, unless it came at once, as timeout(1) sends it.
func TestSecondSignal(t *testing.T) {
	for after, want := range map[time.Duration][]string{
		0:              {"INT"},
		impatience:     {"INT"},
		2 * impatience: {"INT", "KILL"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var sent signalled
			r := &run{client: &Client{}, channel: &sent, toTell: make(chan message, maxToTell), ended: make(chan struct{})}
			go r.telling()
			defer close(r.ended)
			ending := newEnding(r)
			defer ending.stop()
			ending.interrupt(unix.SIGINT)
			time.Sleep(after)
			ending.interrupt(unix.SIGINT)
			synctest.Wait()
			if !slices.Equal(sent.names, want) {
				t.Errorf("after %v: sent %q, want %q", after, sent.names, want)
			}
		})
	}
}
