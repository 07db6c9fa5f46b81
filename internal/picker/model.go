package picker

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"forage/internal/agent"
	"forage/internal/tail"
	"forage/internal/term"
)

// pace is how often the sandboxes are asked at most, idle how often without a change: ages go on.
const (
	pace = 2 * time.Second
	idle = time.Minute
)

// What comes from outside, beside keys.
type (
	listed struct { // the sandboxes were asked
		rows []Row
		note string
		err  error
		when time.Time
	}
	touched struct{}            // something may have changed
	due     struct{}            // pace allows to ask
	minute  struct{}            // a minute has passed
	ended   struct{ err error } // a command on the terminal
	done    struct {            // a command without it
		what string
		err  error
	}
	told struct { // about a sandbox, in inRefused or inDown
		mode     mode
		name     string
		refusals []Refusal
		err      error
	}
)

// mode is what keys are for.
type mode int

const (
	inList mode = iota
	inFilter
	inRefused
	inDown
	inForm
	inHelp
)

type model struct {
	Options
	ctx   context.Context
	watch *tail.Folder
	show  func(wait bool, args ...string) tea.Cmd // runs a command on the terminal
	do    func(args ...string) (string, error)    // runs one without it

	width, height int
	mode          mode
	rows          []Row
	known         bool // rows were asked for
	filter        string
	at            string // name of the row under the cursor
	made          string // by the form, and not among the rows yet: the cursor goes there
	message       string // escaped

	asking, again bool // the sandboxes are being asked, and have to be asked once more
	later         bool // due will come
	asked         time.Time

	about   string // sandbox of inRefused and inDown
	waiting bool   // what is shown about it is not there yet
	told    told
	cursor  int // in refusals and in the form
	form    form
}

func (m *model) Init() tea.Cmd {
	return tea.Batch(m.ask(), m.await(), m.minute())
}

func (m *model) await() tea.Cmd {
	return func() tea.Msg {
		if !m.watch.Wait() {
			return nil
		}
		return touched{}
	}
}

func (m *model) minute() tea.Cmd {
	return tea.Tick(idle, func(time.Time) tea.Msg { return minute{} })
}

// ask asks for the sandboxes. Where that is under way, it is done once more.
func (m *model) ask() tea.Cmd {
	if m.asking {
		m.again = true
		return nil
	}
	m.asking, m.again = true, false
	return func() tea.Msg {
		m.watch.Arm() // first: what changes meanwhile is told
		rows, note, err := m.List(m.ctx)
		return listed{rows, note, err, time.Now()}
	}
}

// soon asks when pace allows it.
func (m *model) soon() tea.Cmd {
	if m.later {
		return nil
	}
	m.later = true
	return tea.Tick(max(0, pace-time.Since(m.asked)), func(time.Time) tea.Msg { return due{} })
}

func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case touched:
		return m, tea.Batch(m.soon(), m.await())
	case due:
		m.later = false
		return m, m.ask()
	case minute:
		return m, tea.Batch(m.soon(), m.minute())
	case listed:
		m.asking, m.known, m.asked = false, true, msg.when
		m.say(msg.note, msg.err)
		m.replace(msg.rows)
		if m.again {
			return m, m.soon()
		}
	case ended:
		m.say("", msg.err)
		return m, m.ask()
	case done:
		m.say(msg.what, msg.err)
		return m, m.ask()
	case told:
		if m.mode == msg.mode && m.about == msg.name {
			m.told, m.waiting = msg, false
		}
	case tea.PasteMsg:
		if text := m.text(); text != nil {
			*text += oneLine(msg.Content)
			m.settle()
		}
	case tea.KeyPressMsg:
		if msg.String() == "ctrl+c" {
			return m, tea.Quit
		}
		return m, m.key(msg)
	}
	return m, nil
}

// say shows a message, and leaves the one before where there is none.
func (m *model) say(text string, err error) {
	if err != nil {
		text = strings.TrimSpace(text + " " + err.Error())
	}
	if text != "" {
		m.message = term.Escape(oneLine(text))
	}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// replace shows other rows. The cursor stays on its sandbox, else on the place in the list.
func (m *model) replace(rows []Row) {
	place := m.place()
	m.rows = rows
	if slices.ContainsFunc(rows, func(r Row) bool { return r.Name == m.made }) {
		m.at, m.made = m.made, ""
	}
	if shown := m.shown(); m.place() < 0 && len(shown) > 0 {
		m.at = shown[min(max(place, 0), len(shown)-1)].Name
	}
}

// shown are the rows that the filter leaves.
func (m *model) shown() []Row {
	if m.filter == "" {
		return m.rows
	}
	word := strings.ToLower(m.filter)
	return slices.DeleteFunc(slices.Clone(m.rows), func(r Row) bool {
		return !strings.Contains(strings.ToLower(strings.Join([]string{r.Name, r.Agent, r.State, r.Branch}, "\n")), word)
	})
}

// place is where the cursor is among the rows that are shown; -1 without any.
func (m *model) place() int {
	return slices.IndexFunc(m.shown(), func(r Row) bool { return r.Name == m.at })
}

// settle puts the cursor on a row that is shown.
func (m *model) settle() { m.replace(m.rows) }

// step is where a key moves the cursor to, in a list of so many.
func (m *model) step(key string, from, all int) int {
	page := max(1, m.height-chrome)
	by := map[string]int{"up": -1, "k": -1, "down": 1, "j": 1, "pgup": -page, "pgdown": page, "home": -all, "end": all}
	return max(0, min(from+by[key], all-1))
}

// text is what is typed into; nil is nothing.
func (m *model) text() *string {
	switch {
	case m.mode == inFilter:
		return &m.filter
	case m.mode == inForm:
		return m.form.text(m.cursor)
	}
	return nil
}

func (m *model) key(key tea.KeyPressMsg) tea.Cmd {
	m.message = ""
	if text := m.text(); text != nil {
		switch {
		case key.String() == "backspace":
			if all := []rune(*text); len(all) > 0 {
				*text = string(all[:len(all)-1])
			}
		case key.String() == "ctrl+u":
			*text = ""
		default:
			*text += key.Text
		}
		m.settle()
	}
	switch m.mode {
	case inFilter:
		if key.String() == "esc" {
			m.filter = ""
		}
		if key.String() == "esc" || key.String() == "enter" {
			m.mode = inList
		}
	case inHelp:
		m.mode = inList
	case inRefused:
		return m.refusedKey(key.String())
	case inDown:
		return m.downKey(key.String())
	case inForm:
		return m.formKey(key.String())
	default:
		return m.listKey(key.String())
	}
	return nil
}

func (m *model) listKey(key string) tea.Cmd {
	if shown := m.shown(); len(shown) > 0 {
		m.at = shown[m.step(key, m.place(), len(shown))].Name
	}
	switch key {
	case "q":
		return tea.Quit
	case "esc":
		m.filter = ""
		m.settle()
	case "/":
		m.mode = inFilter
	case "?":
		m.mode = inHelp
	case "n":
		m.mode, m.cursor = inForm, 0
		m.form = newForm(m.Options)
	}
	if m.place() < 0 {
		return nil
	}
	name := m.at
	switch key {
	case "enter":
		return m.show(false, "ssh", name)
	case "s":
		return m.show(false, "shell", name)
	case "l":
		return m.show(true, "logs", name)
	case "v":
		return m.show(false, "diff", name)
	case "o":
		if m.shown()[m.place()].Page != "" {
			return m.show(false, "open", name)
		}
		m.say(name+" asks for no page", nil)
	case "a":
		return m.look(inRefused, name, m.Refused)
	case "d":
		return m.look(inDown, name, func(ctx context.Context, name string) ([]Refusal, error) { return nil, m.Loses(ctx, name) })
	}
	return nil
}

// look asks something about a sandbox, and waits for it on a page of its own.
func (m *model) look(at mode, name string, ask func(context.Context, string) ([]Refusal, error)) tea.Cmd {
	m.mode, m.about, m.waiting, m.told, m.cursor = at, name, true, told{}, 0
	return func() tea.Msg {
		refusals, err := ask(m.ctx, name)
		return told{at, name, refusals, err}
	}
}

// run runs a command without the terminal.
func (m *model) run(args ...string) tea.Cmd {
	m.say(strings.Join(args, " ")+" ...", nil)
	return func() tea.Msg {
		said, err := m.do(args...)
		if err == nil && (said == "" || args[0] == "network") { // which says what holds now
			said = strings.Join(args, " ") + ": done"
		}
		return done{said, err}
	}
}

// refusedKey allows what is under the cursor. The list stays as it was when it was asked for, so
// that nothing slips under the cursor that was not read.
func (m *model) refusedKey(key string) tea.Cmd {
	all := m.told.refusals
	m.cursor = m.step(key, m.cursor, len(all))
	switch key {
	case "esc", "q":
		m.mode = inList
	case "a", "enter":
		if len(all) == 0 {
			return nil
		}
		r := all[m.cursor]
		if len(r.Allow) == 0 {
			m.say("no key allows that: "+r.Text, nil)
			return nil
		}
		return m.run(append([]string{"network", m.about}, r.Allow...)...)
	}
	return nil
}

// downKey takes a sandbox down. It needs another key where work would be lost.
func (m *model) downKey(key string) tea.Cmd {
	if m.waiting && key != "esc" && key != "q" {
		return nil
	}
	m.mode = inList
	switch {
	case key == "y" && m.told.err == nil:
		return m.run("down", m.about)
	case key == "F" && m.told.err != nil:
		return m.run("down", "--force", m.about)
	}
	return nil
}

// form is what a new sandbox is made from.
type form struct {
	name, folder, branch, task string

	template int
	mode     int // of folderModes
}

// Fields of the form, from top to bottom.
const (
	fieldName = iota
	fieldTemplate
	fieldFolder
	fieldMode
	fieldBranch
	fieldTask
	fields
)

// folderModes are the ways in which a folder becomes a workspace: flags of `up`.
var folderModes = []struct{ flag, text string }{
	{"workspace", "the folder itself"},
	{"git-worktree", "a git worktree of it"},
	{"repo", "a jj workspace of it"},
	{"clone", "a clone of it"},
}

func newForm(o Options) form {
	return form{folder: o.Here, template: max(0, slices.IndexFunc(o.Templates, func(t Template) bool { return t.Name == o.Default }))}
}

// text is what is typed into in a field; nil in one that is chosen.
func (f *form) text(field int) *string {
	return map[int]*string{fieldName: &f.name, fieldFolder: &f.folder, fieldBranch: &f.branch, fieldTask: &f.task}[field]
}

func (m *model) formKey(key string) tea.Cmd {
	f := &m.form
	switch key {
	case "esc":
		m.mode = inList
	case "up", "shift+tab":
		m.cursor = (m.cursor + fields - 1) % fields
	case "down", "tab":
		m.cursor = (m.cursor + 1) % fields
	case "left", "right", "space":
		switch by := map[string]int{"left": -1, "right": 1, "space": 1}[key]; m.cursor {
		case fieldMode:
			f.mode = (f.mode + len(folderModes) + by) % len(folderModes)
		case fieldTemplate:
			f.template = (f.template + len(m.Templates) + by) % max(1, len(m.Templates))
		}
	case "enter":
		if m.cursor < fieldTask {
			m.cursor++
			return nil
		}
		if f.name == "" {
			m.cursor = fieldName
			m.say("a sandbox needs a name", nil)
			return nil
		}
		m.mode, m.made = inList, f.name
		return m.show(true, f.args(m.Templates, m.Home)...)
	}
	return nil
}

// args are the arguments that make the sandbox.
func (f form) args(templates []Template, home string) []string {
	args, command := []string{"up"}, []string(nil)
	if f.template < len(templates) {
		args = append(args, "--template="+templates[f.template].Name)
		command = templates[f.template].Command
	}
	folder := f.folder
	if below, ok := strings.CutPrefix(folder, "~/"); ok { // no shell does it
		folder = filepath.Join(home, below)
	}
	args = append(args, "--"+folderModes[f.mode].flag+"="+folder)
	if f.branch != "" {
		args = append(args, "--branch="+f.branch)
	}
	args = append(args, f.name)
	if f.task == "" {
		return args
	}
	return slices.Concat(args, []string{"--"}, agent.WithTask(command, f.task))
}
