package supervisor

import (
	"context"
	"os"
	"sync"
	"time"

	"forage/internal/agent"
	"forage/internal/audit"
	"forage/internal/control"
	"forage/internal/notify"
)

// notifyPause is how long nothing is told after something was: an agent may change its mind many
// times a second.
const notifyPause = 2 * time.Second

// activity is what the agent does. Its output says so, which the agent can forge: it is shown, and
// nothing is decided by it.
type activity struct {
	watcher agent.Watcher // what is written to the log is written to it

	mu     sync.Mutex
	now    string // what the agent's terminal says; "" is nothing
	worked bool   // it has, since the user was last told that it waits
	ended  bool   // it is said to have, and the user was not told yet

	changed chan struct{} // holds one when there is something to tell; nil: the user is not told
}

func newActivity(command string, told bool) *activity {
	known, _ := agent.Lookup(command)
	a := &activity{}
	a.watcher = agent.Watcher{Activity: known.Activity, Changed: a.set}
	if told {
		a.changed = make(chan struct{}, 1)
	}
	return a
}

func (a *activity) set(state string, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = state
	a.worked = !ended && (a.worked || state == agent.Working)
	a.ended = a.ended || ended
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// state is what is shown, with the exit status of an agent that has ended. The guest's answer may
// be a lie.
func (a *activity) state(answer control.AnswerBody) (string, *int) {
	if answer.Ended {
		if status := answer.Status; status != nil && *status >= 0 && *status <= 255 {
			return agent.Ended, status
		}
		return agent.Ended, nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.now == "" {
		return agent.Running, nil
	}
	return a.now, nil
}

// due is whether the user is to be told that the agent waits, or, if the guest says so too, that it
// has ended.
func (a *activity) due() (waits, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	waits, ended = a.worked && a.now == agent.Waiting, a.ended
	if waits {
		a.worked = false
	}
	a.ended = false
	return waits, ended
}

// tell tells the user of what the agent does until the sandbox ends.
func (s *Sandbox) tell() {
	for {
		select {
		case <-s.activity.changed:
		case <-s.done:
			return
		}
		waits, ended := s.activity.due()
		event := notify.Event{Sandbox: s.setup.Plan.Name, State: notify.Waiting}
		if ended { // which is asked for, since what the log says can be forged more easily
			answer, err := s.query(context.Background(), "session")
			s.mu.Lock()
			asked := s.reason != ""
			s.mu.Unlock()
			if ended = err == nil && answer.Ended && !asked; ended {
				event.State, event.ExitCode = s.activity.state(answer)
			}
		}
		if waits || ended {
			s.notify(event)
		} else if !ended {
			continue
		}
		select {
		case <-time.After(notifyPause):
		case <-s.done:
			return
		}
	}
}

// notify tells the user of an event. That it can't is kept in the audit log.
func (s *Sandbox) notify(event notify.Event) {
	if err := notify.Send(context.Background(), s.setup.Notify, event, os.Getenv); err != nil {
		_ = s.Record(audit.Event{Kind: audit.Lifecycle, Reason: err.Error()}) // which is no reason to end
	}
}
