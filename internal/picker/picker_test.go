package picker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"forage/internal/term"
)

// screen is a model without a terminal, and the commands that it ran.
type screen struct {
	*model
	t   *testing.T
	ran []string
}

func newScreen(t *testing.T, width, height int, rows ...Row) *screen {
	s := &screen{t: t}
	created := time.Now().Add(-time.Hour)
	for i := range rows {
		rows[i].Created = created
	}
	s.model = &model{ctx: t.Context(), Options: Options{
		Age:       func(d time.Duration) string { return d.Truncate(time.Hour).String()[:2] },
		Refused:   func(context.Context, string) ([]Refusal, error) { return nil, nil },
		Loses:     func(context.Context, string) error { return nil },
		Templates: []Template{{Name: "claude", Command: []string{"claude", "--x"}}, {Name: "generic"}},
		Default:   "generic", Here: "/here", Home: "/home/me",
	}}
	s.show = func(wait bool, args ...string) tea.Cmd {
		s.ran = append(s.ran, fmt.Sprintf("%q %v", args, wait))
		return nil
	}
	s.do = func(args ...string) (string, error) {
		s.ran = append(s.ran, fmt.Sprintf("%q", args))
		return "", nil
	}
	s.Update(tea.WindowSizeMsg{Width: width, Height: height})
	s.Update(listed{rows: rows})
	return s
}

// keys types them. What they ask for is answered at once.
func (s *screen) keys(keys ...string) {
	special := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "tab": {Code: tea.KeyTab}, "left": {Code: tea.KeyLeft},
		"right": {Code: tea.KeyRight}, "backspace": {Code: tea.KeyBackspace}, "end": {Code: tea.KeyEnd}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, name := range keys {
		pressed := []tea.Key{special[name]}
		if pressed[0].Code == 0 {
			pressed = nil
			for _, r := range name {
				pressed = append(pressed, tea.Key{Code: r, Text: string(r)})
			}
		}
		for _, key := range pressed {
			if _, cmd := s.Update(tea.KeyPressMsg(key)); cmd != nil {
				if msg := cmd(); msg != nil {
					s.Update(msg)
				}
			}
		}
	}
}

// text is what the screen shows, and fails if that does not fit it.
func (s *screen) text() string {
	s.t.Helper()
	lines := strings.Split(ansi.Strip(s.View().Content), "\n")
	if len(lines) != s.height {
		s.t.Errorf("%d lines on a screen of %d", len(lines), s.height)
	}
	for i, line := range lines {
		if width := ansi.StringWidthWc(line); width > s.width {
			s.t.Errorf("line %d has %d cells of %d: %q", i, width, s.width, line)
		}
		lines[i] = strings.TrimRight(line, " ")
	}
	return strings.Join(lines, "\n")
}

func (s *screen) wantRan(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.ran); diff != "" {
		s.t.Errorf("it ran other commands: %s", diff)
	}
	s.ran = nil
}

func (s *screen) wantText(want ...string) {
	s.t.Helper()
	text := s.text()
	for _, part := range want {
		if !strings.Contains(text, part) {
			s.t.Errorf("the screen does not show %q:\n%s", part, text)
		}
	}
}

func three() []Row {
	return []Row{
		{Name: "api", Agent: "claude", State: "waiting", Branch: "forage-api", Unsaved: "yes", Refused: "2", Traffic: "3.1 MiB", Ports: "3000"},
		{Name: "docs", Agent: "codex", State: "working", Branch: "forage-docs", Unsaved: "no", Refused: "-", Traffic: "-"},
		{Name: "日本", Agent: "ウサギ", State: "stopped", Branch: "-", Unsaved: "-", Refused: "-", Traffic: "-"},
	}
}

func TestTheListAtBothSizes(t *testing.T) {
	want := []string{
		"  Sandboxes: 3",
		"  NAME  AGENT   STATE    AGE  BRANCH       UNSAVED  REFUSED  TRAFFIC",
		"> api   claude  waiting  1h   forage-api   yes      2        3.1 MiB",
		"  docs  codex   working  1h   forage-docs  no       -        -",
		"  日本  ウサギ  stopped  1h   -            -        -        -",
	}
	for _, size := range [][2]int{{80, 24}, {200, 60}, {20, 5}, {1, 1}} {
		s := newScreen(t, size[0], size[1], three()...)
		lines := strings.Split(s.text(), "\n")
		if size[0] < 80 {
			continue // it fits, and that is all
		}
		if diff := cmp.Diff(want, lines[:len(want)]); diff != "" {
			t.Errorf("%v: %s", size, diff)
		}
		if ports := lines[len(lines)-2]; ports != "  listening: 3000" {
			t.Errorf("%v: the last line but one is %q", size, ports)
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, "enter attach") || !strings.HasSuffix(last, "? q") {
			t.Errorf("%v: the last line is %q", size, last)
		}
	}
}

func TestHostileText(t *testing.T) {
	evil := "\x1b]0;t\a\x1b[2J\r\n\u202e\u200b" + strings.Repeat("広", 100)
	s := newScreen(t, 80, 24, Row{Name: "a", Agent: evil, State: evil, Branch: evil, Unsaved: "-", Refused: "1"})
	s.Refused = func(context.Context, string) ([]Refusal, error) { return []Refusal{{Text: evil}}, errors.New(evil) }
	s.Loses = func(context.Context, string) error { return errors.New(evil) }
	for _, keys := range []string{"", "a", "d", "n", "/"} {
		s.mode = inList
		s.keys(keys)
		s.Update(tea.PasteMsg{Content: evil})
		s.Update(listed{rows: s.rows, note: evil, err: errors.New(evil)})
		s.text()
		content := s.View().Content
		for _, style := range []string{term.Bold, term.Reverse, term.Yellow, term.Plain} {
			content = strings.ReplaceAll(content, style, "")
		}
		if strings.ContainsAny(content, "\x1b\a\r\u202e\u200b") {
			t.Errorf("%q draws %q", keys, content)
		}
	}
}

func TestKeysOfTheList(t *testing.T) {
	s := newScreen(t, 80, 24, three()...)
	s.keys("enter", "j", "s", "l", "v", "end", "enter", "k", "k", "k", "enter")
	s.wantRan(`["ssh" "api"] false`, `["shell" "docs"] false`, `["logs" "docs"] true`, `["diff" "docs"] false`,
		`["ssh" "日本"] false`, `["ssh" "api"] false`)

	// The cursor stays on its sandbox, else on its place.
	s.keys("j")
	s.Update(listed{rows: slices.Insert(three(), 0, Row{Name: "aaa"})})
	s.wantText("> docs")
	s.Update(listed{rows: three()[:1]})
	s.wantText("> api")
	s.Update(listed{})
	s.keys("enter", "d", "a", "s")
	s.wantRan()
	s.wantText("n makes one")

	// A filter.
	s.Update(listed{rows: three()})
	s.keys("/", "COD", "enter", "enter")
	s.wantRan(`["ssh" "docs"] false`)
	s.wantText("> docs", "filter: COD")
	s.keys("/", "zz")
	s.wantText("esc takes it away")
	s.keys("backspace", "backspace", "esc")
	s.wantText("  api")
	s.keys("?")
	s.wantText("Ctrl-b d comes back")
	s.keys("x")
	for _, key := range []string{"q", "ctrl+c"} {
		_, cmd := s.Update(tea.KeyPressMsg(map[string]tea.Key{"q": {Code: 'q', Text: "q"}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl}}[key]))
		if cmd == nil || cmd() != tea.Quit() {
			t.Errorf("%s does not leave", key)
		}
	}
}

func TestManyRows(t *testing.T) {
	var rows []Row
	for i := range 200 {
		rows = append(rows, Row{Name: fmt.Sprintf("box-%03d", i)})
	}
	s := newScreen(t, 80, 24, rows...)
	s.wantText("> box-000", "box-019")
	s.keys("end")
	s.wantText("> box-199", "box-180")
}

func TestRefusalsAreAllowedOneByOne(t *testing.T) {
	s := newScreen(t, 80, 24, three()...)
	s.Refused = func(_ context.Context, name string) ([]Refusal, error) {
		return []Refusal{{"a.example.com", []string{"--allow=a.example.com"}}, {"b is private", nil}}, nil
	}
	s.keys("a")
	s.wantText("api was refused:", "> a.example.com", "  b is private")
	s.keys("a")
	s.wantRan(`["network" "api" "--allow=a.example.com"]`)
	s.wantText("--allow=a.example.com: done")
	s.keys("j", "a")
	s.wantRan()
	s.wantText("no key allows that")
	// An answer about another sandbox, or too late, is not shown.
	s.Update(told{inRefused, "docs", []Refusal{{Text: "late"}}, nil})
	s.wantText("> b is private")
	s.keys("esc")
	s.Update(told{inRefused, "api", []Refusal{{Text: "late"}}, nil})
	s.wantText("Sandboxes: 3")
}

func TestDownSaysWhatWouldBeLost(t *testing.T) {
	s := newScreen(t, 80, 24, three()...)
	s.keys("d", "F")
	s.wantRan() // nothing would be lost: y is the key
	s.keys("d")
	s.wantText("Take down api?", "Nothing would be lost")
	s.keys("y")
	s.wantRan(`["down" "api"]`)
	s.Loses = func(context.Context, string) error { return errors.New("3 commits are nowhere else") }
	s.keys("d")
	s.wantText("3 commits are nowhere else", "kept for 30 days")
	s.keys("y")
	s.wantRan()
	s.keys("d", "F")
	s.wantRan(`["down" "--force" "api"]`)
	// Before that is known no key takes it down.
	_, _ = s.Update(tea.KeyPressMsg{Code: 'd', Text: "d"})
	s.keys("y", "F")
	s.wantRan()
	s.wantText("looking what would be lost")
}

func TestTheForm(t *testing.T) {
	s := newScreen(t, 80, 24, three()...)
	s.keys("n", "fix", "enter", "enter", "enter", "enter", "enter", "enter")
	s.wantRan(`["up" "--template=generic" "--workspace=/here" "fix"] true`)
	s.keys("n", "tab", "tab", "tab", "tab", "tab", "make a", "enter")
	s.wantRan()
	s.wantText("a sandbox needs a name")
	s.keys("fix", "tab", "tab", "tab", "right", "tab", "main", "tab", "enter")
	s.wantRan(`["up" "--template=generic" "--git-worktree=/here" "--branch=main" "fix" "--" "sh" "-c" "make a"] true`)
	s.keys("n", "x", "tab", "left", "tab", "backspace", "backspace", "backspace", "backspace", "backspace")
	s.Update(tea.PasteMsg{Content: "~/a b\n"})
	s.keys("tab", "tab", "tab", "-- it's", "enter")
	s.wantRan(`["up" "--template=claude" "--workspace=/home/me/a b" "x" "--" "claude" "--x" "-- it's"] true`)
	s.keys("n", "q", "esc")
	s.wantText("Sandboxes: 3")
}

// While the sandboxes are being asked, changes have them asked once more, and not sooner than pace.
// What a key has done is asked for at once.
func TestItAsksOnceMore(t *testing.T) {
	s := newScreen(t, 80, 24)
	s.asked = time.Now()
	if s.soon() == nil || s.soon() != nil || s.soon() != nil {
		t.Error("they are asked later twice")
	}
	if s.ask() == nil || s.ask() != nil {
		t.Error("they are asked twice at a time")
	}
	if _, cmd := s.Update(due{}); cmd != nil {
		t.Error("they are asked twice at a time")
	}
	if _, cmd := s.Update(listed{when: time.Now()}); cmd == nil {
		t.Error("what changed meanwhile is not asked for")
	}
	if _, cmd := s.Update(due{}); cmd == nil {
		t.Error("what changed meanwhile is not asked for")
	}
	if _, cmd := s.Update(listed{when: time.Now()}); cmd != nil {
		t.Error("they are asked without a change")
	}
}

func TestAPageThatIsAskedFor(t *testing.T) {
	rows := three()
	rows[0].Page = "evil.example\x1b]0;x\a"
	s := newScreen(t, 80, 24, rows...)
	s.wantText(`o opens a page of evil.example\x1b]0;x\x07  listening: 3000`)
	s.keys("o")
	s.wantRan(`["open" "api"] false`)
	s.keys("j", "o")
	s.wantRan()
	s.wantText("docs asks for no page")
}

func TestReadLineLeavesTheRest(t *testing.T) {
	in := strings.NewReader(" 2 \nrest")
	if line, err := readLine(in); line != "2" || err != nil || in.Len() != len("rest") {
		t.Errorf("%q, %v, %d left", line, err, in.Len())
	}
}

// What changes meanwhile does not keep the cursor from the sandbox that was just made.
func TestCursorGoesToWhatWasMade(t *testing.T) {
	s := newScreen(t, 80, 24, three()...)
	s.keys("n", "fix", "tab", "tab", "tab", "tab", "tab", "enter")
	s.replace(three())
	s.wantText("> api ")
	s.replace(append(three(), Row{Name: "fix", State: "creating"}))
	s.wantText("> fix ")
}
