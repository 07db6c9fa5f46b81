package reviewscreen

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace/review"
)

// desk is a screen without a terminal.
type desk struct {
	t       *testing.T
	m       *model
	applied []string
	shown   []int
	refuse  error
}

const file = 0o100644

func hunk(old, new int, lines ...string) review.Hunk {
	h := review.Hunk{Old: old, New: new}
	for _, line := range lines {
		h.Lines = append(h.Lines, review.Line{Kind: line[0], Text: line[1:]})
		if line[0] != '+' {
			h.OldLines++
		}
		if line[0] != '-' {
			h.NewLines++
		}
	}
	return h
}

func modified(name string, added, removed int) File {
	return File{Name: name, Change: &review.Change{Path: name, Status: review.Modified, OldMode: file, NewMode: file, Added: added, Removed: removed}}
}

var some = []review.FileDiff{
	{Hunks: []review.Hunk{hunk(0, 1, "+use flake")}},
	{},
	{Hunks: []review.Hunk{
		hunk(1, 1, " package main", "-// old \x1b[31m", "+// new \x1b]0;title\x07 日本", " func f() {"),
		hunk(30, 30, " /* begins", "-	was \"text\"", "+	ends */ return 42", " }"),
	}},
	{Binary: true},
	{},
}

func newDesk(t *testing.T, width, height int) *desk {
	t.Helper()
	d := &desk{t: t}
	files := []File{
		{Name: ".envrc", Why: "direnv executes it on cd", First: true, Change: &review.Change{Path: ".envrc", Status: review.Added, NewMode: file, Added: 1}},
		{Name: "sub/.git", Why: "git executes its configuration", First: true},
		modified("a.go", 2, 2),
		{Name: "evil\x1b[2J\n\u202e.png", Change: &review.Change{Path: "x", Status: review.Added, NewMode: file, Binary: true}},
		{Name: "to", Change: &review.Change{Path: "to", OldPath: "from", Status: review.Renamed, OldMode: file, NewMode: 0o100755}},
	}
	d.m = newModel(t.Context(), Options{
		Title: "fix", Files: files, Summary: []string{"1 commit on forage-fix", "note \x1b[31m"}, Colour: true,
		Diff: func(_ context.Context, i int) (review.FileDiff, error) { return some[i], nil },
		Apply: func(_ context.Context, list []Choice, all, plain, rehearse bool) ([]string, error) {
			d.applied = append(d.applied, fmt.Sprint(list, all, plain, rehearse))
			return []string{"main would be at 1234"}, d.refuse
		},
		Shown: func(i int) { d.shown = append(d.shown, i) },
	})
	d.send(tea.WindowSizeMsg{Width: width, Height: height})
	return d
}

func (d *desk) send(msg tea.Msg) {
	_, cmd := d.m.Update(msg)
	d.run(cmd)
	d.m.View()
}

func (d *desk) run(cmd tea.Cmd) {
	if cmd == nil {
		return
	}
	switch msg := cmd().(type) {
	case tea.BatchMsg:
		for _, one := range msg {
			d.run(one)
		}
	case nil, tea.QuitMsg:
	default:
		d.send(msg)
	}
}

// press presses keys: letters, or names in spaces.
func (d *desk) press(keys string) {
	names := map[string]rune{"tab": tea.KeyTab, "space": tea.KeySpace, "esc": tea.KeyEscape, "enter": tea.KeyEnter, "end": tea.KeyEnd, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown}
	for _, name := range strings.Fields(keys) {
		if code, ok := names[name]; ok {
			d.send(tea.KeyPressMsg{Code: code})
			continue
		}
		for _, r := range name {
			d.send(tea.KeyPressMsg{Code: r, Text: string(r)})
		}
	}
}

func (d *desk) screen() string { return d.m.View().Content }

func TestGoldenScreens(t *testing.T) {
	for name, test := range map[string]struct {
		width, height int
		keys          string
	}{
		"summary_80x24":  {80, 24, ""},
		"finding_80x24":  {80, 24, "j"},
		"diff_80x24":     {80, 24, "jjj tab n space"},
		"diff_200x60":    {200, 60, "jjj"},
		"list_50x10":     {50, 10, "jjj space"},
		"diff_50x10":     {50, 10, "jjj tab n"},
		"binary_80x24":   {80, 24, "jjjj"},
		"renamed_80x24":  {80, 24, "jjjjj"},
		"no_diff_80x24":  {80, 24, "jj space"},
		"dialogue_80x24": {80, 24, "jjj tab n space A"},
		"help_80x24":     {80, 24, "?"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, test.width, test.height)
			d.press(test.keys)
			lines := strings.Split(ansi.Strip(d.screen()), "\n")
			for i, line := range lines {
				if ansi.StringWidthWc(line) > test.width {
					t.Errorf("line %d is too wide: %q", i, line)
				}
				lines[i] = strings.TrimRight(line, " ")
			}
			if len(lines) != test.height {
				t.Errorf("%d lines", len(lines))
			}
			got, path := strings.Join(lines, "\n")+"\n", filepath.Join("testdata", name+".txt")
			if os.Getenv("GOLDEN") != "" {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("GOLDEN=1 writes it anew; %s", diff)
			}
		})
	}
}

func TestChoosing(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.press("A") // nothing is chosen
	d.press("jjj tab n space A esc n space A esc")
	d.press("a A w y")
	want := []string{"[{2 [0]}] false false true", "[{2 []}] false false true",
		"[{0 []} {2 []} {3 []} {4 []}] true false true", "[{0 []} {2 []} {3 []} {4 []}] true true true", "[{0 []} {2 []} {3 []} {4 []}] true true false"}
	if diff := cmp.Diff(want, d.applied); diff != "" {
		t.Error(diff)
	}
	if !d.m.applied {
		t.Error("it was applied")
	}
}

// Nothing is applied that was refused, or before it was said what that does.
func TestDialogue(t *testing.T) {
	d := newDesk(t, 80, 24)
	d.refuse = errors.New("these files conflict: \x1b[31mx")
	d.press("a A y")
	if len(d.applied) != 1 || d.m.mode == inApply {
		t.Errorf("it applied what was refused: %q", d.applied)
	}
	d.refuse = nil
	_, rehearsal := d.m.Update(tea.KeyPressMsg{Code: 'A', Text: "A"})
	d.m.Update(tea.KeyPressMsg{Code: 'y', Text: "y"})
	if d.m.doing {
		t.Error("y before the answer applies")
	}
	d.m.Update(tea.KeyPressMsg{Code: tea.KeyEscape})
	d.run(rehearsal) // comes late
	if d.m.said.lines != nil {
		t.Error("an answer that nothing waits for is shown")
	}
}

func TestShownToTheEnd(t *testing.T) {
	long := review.FileDiff{Hunks: []review.Hunk{hunk(0, 1)}}
	for i := range 100 {
		long.Hunks[0].Lines = append(long.Hunks[0].Lines, review.Line{Kind: '+', Text: fmt.Sprint(i)})
	}
	d := newDesk(t, 80, 24)
	d.m.Diff = func(context.Context, int) (review.FileDiff, error) { return long, nil }
	d.press("j tab")
	if len(d.shown) != 0 {
		t.Error("its end was not on the screen")
	}
	d.press("end")
	if len(d.shown) != 0 {
		t.Error("its middle was not on the screen")
	}
	d.press("pgup pgup pgup pgup pgup pgup")
	if diff := cmp.Diff([]int{0}, d.shown); diff != "" {
		t.Error(diff)
	}
	long.Cut = true
	d.press("tab j j tab pgdown pgdown pgdown pgdown pgdown pgdown")
	if diff := cmp.Diff([]int{0}, d.shown); diff != "" {
		t.Error("one that is cut was not shown", diff)
	}
}

// Whatever is in names and contents, no escape sequence but ours reaches the terminal, and no row is
// wider than the screen.
func FuzzPage(f *testing.F) {
	f.Add("a.go", "\x1b[2J /* \u202e", "`x\xff\xfe日本\t\"", uint8(30))
	f.Add("a.py", `"""`+strings.Repeat("\u0301", 500), "# x", uint8(80))
	f.Fuzz(func(t *testing.T, name, a, b string, width uint8) {
		a, b = strings.ReplaceAll(a, "\n", ""), strings.ReplaceAll(b, "\n", "")
		p := newPage(name, heading(modified(name, 1, 1), review.FileDiff{}), review.FileDiff{Hunks: []review.Hunk{hunk(1, 1, "-"+a, "+"+b, " "+a+b)}})
		p.layOut(int(width))
		var seen [3]strings.Builder
		for _, r := range p.rows {
			text := p.draw(r, " ", "[ ]", false)
			if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f || r == 0x202e }) {
				t.Errorf("%q is not safe", text)
			}
			if wide := ansi.StringWidthWc(text); wide > max(int(width), 12+p.margin()) && r.line >= 0 {
				t.Errorf("%d cells of %d: %q", wide, width, text)
			}
			if r.line >= 0 {
				seen[r.line].WriteString(p.Hunks[0].Lines[r.line].Text[r.from:r.to])
			}
		}
		if seen[0].String() != a || seen[1].String() != b || seen[2].String() != a+b {
			t.Error("not all of a line is shown")
		}
	})
}

// A thousand files, and one of ten megabytes: what is drawn is bounded by the screen.
func TestManyFilesStayFluid(t *testing.T) {
	var files []File
	for i := range 10_000 {
		files = append(files, modified(fmt.Sprintf("dir/file%d.go", i), i, 1))
	}
	var big review.FileDiff
	h := hunk(0, 1)
	for i := range 50_000 {
		h.Lines = append(h.Lines, review.Line{Kind: '+', Text: fmt.Sprintf("	fmt.Println(%d, \"text\") // 日本 comment", i)})
	}
	big.Hunks = append(big.Hunks, h)
	m := newModel(t.Context(), Options{Title: "x", Files: files, Colour: true, Shown: func(int) {},
		Diff: func(context.Context, int) (review.FileDiff, error) { return big, nil }})
	d := &desk{t: t, m: m}
	start := time.Now()
	d.send(tea.WindowSizeMsg{Width: 200, Height: 60})
	first := time.Since(start)
	d.press("j")
	start = time.Now()
	const frames = 100
	for range frames {
		d.press("j")
		d.screen()
	}
	t.Logf("first frame %v, each of %d steps with its load and two frames %v", first, frames, time.Since(start)/frames)
	d.press("tab end")
	start = time.Now()
	for range frames {
		d.press("k")
	}
	each := time.Since(start) / frames
	t.Logf("scrolling: %v a frame", each)
	if each > 100*time.Millisecond {
		t.Errorf("a frame takes %v", each)
	}
}

func TestColours(t *testing.T) {
	for _, test := range []struct{ file, line, want string }{
		{"a.go", `func f() { return "x" } // no`, "keyword:func function:f keyword:return literal:\"x\" comment:// no"},
		{"a.py", "x = 0x1f # c", "number:0x1f comment:# c"},
		{"a.sh", "echo $# 'a", ""},
		{"a.txt", "func 1", ""},
		{"a.sql", "SELECT 1 -- c", "keyword:SELECT number:1 comment:-- c"},
	} {
		names := map[string]string{comment: "comment", literal: "literal", number: "number", keyword: "keyword", function: "function"}
		var got []string
		at := 0
		languageOf(test.file).scan(test.line, 0, func(style string, end int) {
			if style != plainText {
				got = append(got, names[style]+":"+test.line[at:end])
			}
			at = end
		})
		if text := strings.Join(got, " "); text != test.want || at != len(test.line) {
			t.Errorf("%s: %q is %q", test.file, test.line, text)
		}
	}
}
