package agent

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testdir"
)

// states are what a Watcher finds in text that comes in pieces of that size.
func states(a Activity, text string, piece int) (found []string) {
	w := Watcher{Activity: a, Changed: func(state string, ended bool) {
		if ended {
			state = "ended"
		}
		found = append(found, state)
	}}
	for rest := text; rest != ""; {
		n := min(piece, len(rest))
		w.Write([]byte(rest[:n]))
		rest = rest[n:]
	}
	return found
}

func TestWatcher(t *testing.T) {
	for name, test := range map[string]struct {
		agent, text string
		want        []string
	}{
		"claude 2.1.330": {"claude", "\x1b]0;✳ Claude Code\x07\x1b]0;◐ Claude Code\x07\x1b]0;◑ Claude Code\x07", []string{Waiting, Working}},
		"claude":         {"claude", "x\x1b]0;⠂ Claude Code\x07y\x1b[1m\x1b]0;⠐ Claude Code\x07\x1b]2;✳ Claude Code\x1b\\z", []string{Working, Waiting}},
		"gemini":         {"gemini", "\x1b]0;✦  Working… (x)\x07\x1b]0;◇  Ready (x)\x07", []string{Working, Waiting}},
		"codex":          {"codex", "\x1b]7501;state=working:app=codex\x1b\\\x1b]7501;state=done:app=codex\x07\x1b]7501;state=idle\x07", []string{Working, Waiting}},
		"of another":     {"codex", "\x1b]0;⠂ Claude Code\x07", nil},
		"no agent":       {"bash", "\x1b]0;⠂\x07\x1b];state=working\x07", nil},
		"any other text": {"claude", "\x1b]0;vi\x07\x1b]10;⠂\x07\x1b]0;\xff✳\x07\x1b]0;✳", nil},
		"cancelled":      {"claude", "\x1b]0;✳\x18\x07\x1b]0;✳\x1b[m\x07", nil},
		"too long":       {"claude", "\x1b]0;✳" + strings.Repeat("x", 1<<20) + "\x07\x1b]0;⠂\x07", []string{Waiting, Working}},
		"ended":          {"claude", "\x1b]0;⠂\x07\x1b]7770;\x07\x1b]0;⠂\x07", []string{Working, "ended", Working}},
	} {
		a, _ := Lookup(test.agent)
		for _, piece := range []int{1, 3, 1 << 20} {
			if diff := cmp.Diff(test.want, states(a.Activity, test.text, piece)); diff != "" {
				t.Errorf("%s in pieces of %d (-want +got):\n%s", name, piece, diff)
			}
		}
	}
}

// Whatever is written, the watcher stays small and finds the same in whichever pieces it comes.
func FuzzWatcher(f *testing.F) {
	f.Add("\x1b]0;⠂ a\x07\x1b]2;✳\x1b\\\x1b]7501;state=idle:x\x07\x1b]7770;\x07", 2)
	f.Fuzz(func(t *testing.T, text string, piece int) {
		a := Activity{Working: []string{"⠂"}, Waiting: []string{"✳"}, OSC: "7501"}
		testdir.Same(t, "", states(a, text, len(text)+1), states(a, text, max(1, piece%64)))
		w := Watcher{Activity: a, Changed: func(string, bool) {}}
		w.Write([]byte(text))
		if len(w.held) > maxOSC {
			t.Errorf("it holds %d bytes", len(w.held))
		}
	})
}
