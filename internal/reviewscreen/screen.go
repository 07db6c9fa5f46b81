// Package reviewscreen is a screen on which the user reads what was done in a sandbox, chooses files
// and hunks, and has them applied. It draws a review that it is given, and decides nothing. Names and
// contents come from inside: they are escaped before they are drawn.
package reviewscreen

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"forage/internal/term"
	"forage/internal/workspace/review"
)

// File is one row of the list. Without a change it is something that tools of the host would execute,
// and that apply does not bring.
type File struct {
	Name   string // with the part of the workspace, if there are several
	Change *review.Change
	Why    string // tools of the host execute it, and when; "": they do not
	First  bool   // they do so without the user's doing anything but go there
}

// Choice is a file that the user chose.
type Choice struct {
	File  int   // of Options.Files
	Hunks []int // nil: all
}

// Options is what the screen shows and does.
type Options struct {
	In, Out *os.File
	Title   string
	Files   []File   // in the order in which they are to be looked at
	Summary []string // what else there is to know
	Colour  bool

	// Diff is what was done to a file. It is asked for when the file is looked at.
	Diff func(ctx context.Context, file int) (review.FileDiff, error)
	// Apply applies what was chosen, or with rehearse says what that would do. all: every file is
	// chosen. plain: as changes that are not committed.
	Apply func(ctx context.Context, chosen []Choice, all, plain, rehearse bool) (said []string, err error)
	// Shown is told of a file of whose diff every line has been on the screen.
	Shown func(file int)
}

// Run shows the screen until the user leaves it. again: something was applied, so there is another
// review to show.
func Run(ctx context.Context, o Options) (again bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m := newModel(ctx, o)
	_, err = tea.NewProgram(m, tea.WithContext(ctx), tea.WithInput(o.In), tea.WithOutput(o.Out), tea.WithFPS(60), tea.WithoutSignalHandler()).Run()
	if cause := context.Cause(ctx); cause != nil {
		return false, cause
	}
	return m.applied, err
}

// mode is what keys are for.
type mode int

const (
	inFiles mode = iota
	inDiff
	inFilter
	inApply
	inHelp
)

// Messages beside keys.
type (
	loaded struct {
		file int
		page *page
		err  error
	}
	said struct {
		lines []string
		err   error
		done  bool // it was applied, or was tried
		round int
	}
)

// kept is how many diffs are kept in memory.
const kept = 16

type model struct {
	Options
	ctx           context.Context
	width, height int
	mode          mode
	filter        string
	shown         []int // files that the filter leaves; -1 is the summary
	at            int   // place of the cursor in shown
	message       string

	pages  map[int]*page // nil: it was asked for
	recent []int         // of pages, the oldest first
	top    int           // first row of the diff on the screen
	line   int           // row of the diff with the cursor

	chosen map[int]map[int]bool // hunks of files; nil: all of the file

	plain   bool // what the dialogue is about
	round   int  // of rehearsals
	waiting bool
	doing   bool // it is applied: no key stops that
	said    said
	applied bool

	seen map[int]bool // files that Shown was told of
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{Options: o, ctx: ctx, width: 80, height: 24, pages: map[int]*page{}, chosen: map[int]map[int]bool{}, seen: map[int]bool{}}
	m.find()
	if len(o.Summary) == 0 && len(o.Files) > 0 {
		m.at = 1
	}
	return m
}

func (m *model) Init() tea.Cmd { return m.load() }

// file is the one under the cursor; -1 is the summary.
func (m *model) file() int {
	if m.at < len(m.shown) {
		return m.shown[m.at]
	}
	return -1
}

// page is the diff of the file under the cursor; nil: it is not there.
func (m *model) page() *page { return m.pages[m.file()] }

// find lists the files that the filter leaves.
func (m *model) find() {
	m.shown = m.shown[:0]
	if m.filter == "" {
		m.shown = append(m.shown, -1)
	}
	word := strings.ToLower(m.filter)
	for i, f := range m.Files {
		if strings.Contains(strings.ToLower(f.Name), word) {
			m.shown = append(m.shown, i)
		}
	}
	m.at = max(0, min(m.at, len(m.shown)-1))
}

// load asks for the diff of the file under the cursor.
func (m *model) load() tea.Cmd {
	file := m.file()
	if _, asked := m.pages[file]; asked || file < 0 || m.Files[file].Change == nil {
		return nil
	}
	m.pages[file] = nil
	m.recent = append(m.recent, file)
	if len(m.recent) > kept {
		delete(m.pages, m.recent[0])
		m.recent = m.recent[1:]
	}
	width := m.diffWidth()
	return func() tea.Msg {
		d, err := m.Diff(m.ctx, file)
		p := newPage(m.Files[file].Name, heading(m.Files[file], d), d)
		p.layOut(width)
		return loaded{file, p, err}
	}
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case loaded:
		if _, wanted := m.pages[msg.file]; wanted {
			if msg.err != nil {
				msg.page.head = append(msg.page.head, term.Escape(msg.err.Error()))
				msg.page.Cut, msg.page.width = true, 0 // it is not shown
			}
			m.pages[msg.file] = msg.page
		}
	case said:
		if msg.round == m.round {
			m.said, m.waiting, m.doing = msg, false, false
			m.applied = m.applied || msg.done && msg.err == nil
		}
	case tea.PasteMsg:
		if m.mode == inFilter {
			m.filter += msg.Content
			m.find()
		}
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" && !m.doing {
			return m, tea.Quit
		}
		cmd := m.key(msg)
		return m, tea.Batch(cmd, m.load())
	}
	return m, nil
}

func (m *model) key(key tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	name := key.String()
	switch m.mode {
	case inHelp:
		m.mode = inFiles
	case inApply:
		return m.applyKey(name)
	case inFilter:
		m.filterKey(name, key.Text)
	case inDiff:
		return m.diffKey(name)
	default:
		return m.filesKey(name)
	}
	return nil
}

func (m *model) filterKey(name, text string) {
	switch name {
	case "enter":
		m.mode = inFiles
	case "esc":
		m.mode, m.filter = inFiles, ""
	case "backspace":
		if all := []rune(m.filter); len(all) > 0 {
			m.filter = string(all[:len(all)-1])
		}
	default:
		m.filter += text
	}
	m.find()
	m.top, m.line = 0, 0
}

// step is where a key moves a cursor to, in a list of so many.
func (m *model) step(key string, from, all int) int {
	page := max(1, m.room()-1)
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -all, "end": all}
	return max(0, min(from+by[key], all-1))
}

func (m *model) filesKey(key string) tea.Cmd {
	if at := m.step(key, m.at, len(m.shown)); at != m.at {
		m.at, m.top, m.line = at, 0, 0
	}
	switch key {
	case "q":
		return tea.Quit
	case "esc":
		m.filter = ""
		m.find()
	case "tab", "l", "right", "enter":
		m.mode = inDiff
	case "space":
		m.toggle(m.file())
	default:
		return m.commonKey(key)
	}
	return nil
}

func (m *model) diffKey(key string) tea.Cmd {
	all := 0
	if p := m.page(); p != nil {
		all = len(p.top) + len(p.rows)
	} else if m.file() < 0 {
		all = len(m.summary())
	}
	m.line = m.step(key, m.line, all)
	switch key {
	case "q", "esc", "tab", "h", "left":
		m.mode = inFiles
	case "space":
		m.toggleHunk()
	default:
		return m.commonKey(key)
	}
	return nil
}

// commonKey are the keys of both sides.
func (m *model) commonKey(key string) tea.Cmd {
	switch key {
	case "/":
		m.mode = inFilter
	case "?":
		m.mode = inHelp
	case "n", "p":
		m.nextHunk(key == "n")
	case "a":
		m.toggleAll()
	case "A":
		if len(m.chosen) == 0 {
			m.message = "nothing is chosen: space chooses a file or a hunk, a chooses all"
			return nil
		}
		m.mode, m.plain = inApply, false
		return m.apply(true)
	}
	return nil
}

func (m *model) nextHunk(forward bool) {
	p := m.page()
	if p == nil {
		return
	}
	by := map[bool]int{true: 1, false: -1}[forward]
	for i := m.line - len(p.top) + by; i >= -len(p.top) && i < len(p.rows); i += by {
		if i >= 0 && p.rows[i].line < 0 {
			m.line = i + len(p.top)
			m.top = m.line
			return
		}
	}
}

// toggle chooses a file, or no longer.
func (m *model) toggle(file int) {
	switch hunks, chosen := m.chosen[file]; {
	case file < 0:
		m.message = "this is the summary: space on a file chooses it"
	case m.Files[file].Change == nil:
		m.message = "apply does not bring this; forage-ctl quarantine moves it away"
	case chosen && hunks == nil:
		delete(m.chosen, file)
	default:
		m.chosen[file] = nil
	}
}

// toggleHunk chooses the hunk under the cursor, or no longer. Where there is one, it is the file.
func (m *model) toggleHunk() {
	p, file := m.page(), m.file()
	at := -1
	if p != nil {
		at = m.line - len(p.top)
	}
	if at < 0 || len(p.Hunks) < 2 || p.Cut || !m.Files[file].Change.Divisible() {
		m.toggle(file)
		return
	}
	hunk := int(p.rows[at].hunk)
	hunks, chosen := m.chosen[file]
	if chosen && hunks == nil {
		hunks = map[int]bool{}
		for i := range p.Hunks {
			hunks[i] = true
		}
	} else if !chosen {
		hunks = map[int]bool{}
	}
	if hunks[hunk] {
		delete(hunks, hunk)
	} else {
		hunks[hunk] = true
	}
	switch m.chosen[file] = hunks; len(hunks) {
	case 0:
		delete(m.chosen, file)
	case len(p.Hunks):
		m.chosen[file] = nil
	}
}

// toggleAll chooses all files that are listed, or none if all are.
func (m *model) toggleAll() {
	var missing []int
	for _, file := range m.shown {
		if hunks, chosen := m.chosen[file]; file >= 0 && m.Files[file].Change != nil && (!chosen || hunks != nil) {
			missing = append(missing, file)
		}
	}
	for _, file := range missing {
		m.chosen[file] = nil
	}
	if len(missing) == 0 {
		for _, file := range m.shown {
			delete(m.chosen, file)
		}
	}
}

// choices are what is chosen, in the order of the list, and whether that is all.
func (m *model) choices() (list []Choice, all bool) {
	all = true
	for i, f := range m.Files {
		hunks, chosen := m.chosen[i]
		all = all && (f.Change == nil || chosen && hunks == nil)
		if !chosen {
			continue
		}
		list = append(list, Choice{File: i, Hunks: slices.Sorted(maps.Keys(hunks))})
	}
	return list, all
}

// apply has what is chosen applied, or asks what that would do.
func (m *model) apply(rehearse bool) tea.Cmd {
	m.round++
	m.waiting, m.doing, m.said = true, !rehearse, said{}
	round, plain := m.round, m.plain
	list, all := m.choices()
	return func() tea.Msg {
		lines, err := m.Apply(m.ctx, list, all, plain, rehearse)
		return said{lines, err, !rehearse, round}
	}
}

// applyKey answers the dialogue. Nothing is applied before it has said what that does.
func (m *model) applyKey(key string) tea.Cmd {
	switch {
	case m.doing:
	case m.applied:
		return tea.Quit
	case m.waiting && key != "esc" && key != "q" && key != "n":
	case !m.waiting && key == "y" && m.said.err == nil && !m.said.done:
		return m.apply(false)
	case !m.waiting && key == "w" && !m.said.done:
		m.plain = !m.plain
		return m.apply(true)
	default:
		m.mode = inFiles
		m.round++ // what is still said is of no interest
	}
	return nil
}
