package audit

import (
	"time"

	"golang.org/x/time/rate"
)

// What is recorded of traffic that goes through, which something inside drives, may fill so much of
// a log at once, and then so much a second. What would fill it faster is held up, each event by
// maxPause at most: a loop of requests needs about an hour to fill a log, and work that a person
// would call busy never waits. Denials are not held up here: a change of policy, which ends
// connections, must not wait for them. Egress bounds how many there are.
const (
	paceBurst     = 64 << 20  // bytes
	pacePerSecond = 128 << 10 // bytes
	maxPause      = 5 * time.Second
)

func newPace() *rate.Limiter { return rate.NewLimiter(pacePerSecond, paceBurst) }

// paced says whether an event is one of traffic that goes through.
func paced(e Event) bool {
	switch e.Kind {
	case DNS, Connect, HTTP, Secret:
		return e.Verdict != "deny" || e.Monitored
	}
	return false
}

// pauseFor counts n bytes, and returns how long to wait because of them.
func (l *Log) pauseFor(n int64) time.Duration {
	now := l.now()
	return min(l.pace.ReserveN(now, int(n)).DelayFrom(now), maxPause)
}
