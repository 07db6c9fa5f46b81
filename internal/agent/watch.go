package agent

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// What an agent does, as far as its terminal tells.
const (
	Working = "working"
	Waiting = "waiting"
	Running = "running" // it does not tell
	Ended   = "ended"   // which is the guest's to say
)

// EndedOSC is the number of the operating system command with which the guest says, in the agent's
// output, that the agent has ended. What is inside can forge it: its reader has to ask the guest.
const EndedOSC = "7770"

// maxOSC bounds an operating system command, in bytes: of a longer one the rest is skipped.
const maxOSC = 512

// Watcher reads what an agent writes to its terminal and finds what it says about itself: the
// terminal's title, or a command of its own (OSC; ECMA-48, xterm's ctlseqs). It holds at most
// maxOSC bytes. What it says can be forged by the agent.
type Watcher struct {
	Activity Activity
	// Changed is called with each new state, and with what OSC EndedOSC said as ended.
	Changed func(state string, ended bool)

	state string
	at    watched
	held  []byte
}

// watched is where in a command the Watcher is.
type watched uint8

const (
	outside watched = iota
	escaped         // after ESC
	inside          // after ESC ]
	ending          // inside, after ESC
)

// Write never fails.
func (w *Watcher) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if w.at == outside {
			at := bytes.IndexByte(rest, 0x1b)
			if at < 0 {
				break
			}
			w.at, rest = escaped, rest[at+1:]
			continue
		}
		switch {
		case rest[0] == 0x1b && w.at == inside:
			w.at = ending
		case rest[0] == 0x1b:
			w.at = escaped
		case w.at == escaped && rest[0] == ']':
			w.at, w.held = inside, w.held[:0]
		case w.at == inside && rest[0] == 0x07, w.at == ending && rest[0] == '\\':
			w.at = outside
			// Takes one operating system command: its number, and what follows.
			text := string(w.held)
			number, text, _ := strings.Cut(text, ";")
			switch {
			case number == EndedOSC:
				w.state = ""
				w.Changed("", true)
			case number == "0" || number == "2":
				if state := w.Activity.ofTitle(text); state != "" {
					w.set(state)
				}
			case number == w.Activity.OSC && number != "":
				for field := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ':' || r == ';' }) {
					switch field {
					case "state=working":
						w.set(Working)
					case "state=idle", "state=done":
						w.set(Waiting)
					}
				}
			}
		case w.at == inside && rest[0] != 0x18 && rest[0] != 0x1a: // which cancel it
			if len(w.held) < maxOSC {
				w.held = append(w.held, rest[0])
			}
		default:
			w.at = outside
		}
		rest = rest[1:]
	}
	return len(p), nil
}

func (w *Watcher) set(state string) {
	if state != w.state {
		w.state = state
		w.Changed(state, false)
	}
}

// ofTitle is what a title says; "" is nothing.
func (a Activity) ofTitle(title string) string {
	if !utf8.ValidString(title) {
		return ""
	}
	for state, prefixes := range map[string][]string{Working: a.Working, Waiting: a.Waiting} {
		for _, prefix := range prefixes {
			if strings.HasPrefix(title, prefix) {
				return state
			}
		}
	}
	return ""
}
