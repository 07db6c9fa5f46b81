package reviewscreen

import (
	"fmt"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/review"
)

// chrome is how many lines are not of the panes: title, message and keys.
const chrome = 3

// narrow is the width below which one pane is shown at a time.
const narrow = 70

func (m *model) room() int { return max(1, m.height-chrome) }

func (m *model) listWidth() int {
	if m.width < narrow {
		return m.width
	}
	return min(60, max(28, m.width*3/10))
}

func (m *model) diffWidth() int {
	if m.width < narrow {
		return m.width
	}
	return m.width - m.listWidth() - 3
}

func (m *model) View() tea.View {
	list, all := m.choices()
	title := m.Title + fmt.Sprintf("  %s, ", term.Count(len(m.Files), "file"))
	switch {
	case len(m.Files) == 0:
		title = m.Title + "  no changes"
	case len(list) == 0:
		title += "none chosen"
	case all:
		title += "all chosen"
	default:
		title += m.counted(list) + " chosen"
	}
	keys, body := "space choose  n p hunk  tab other side  a all  A apply  / filter  ? help  q", []string(nil)
	switch m.mode {
	case inApply:
		body, keys = m.dialogue()
	case inHelp:
		body, keys = strings.Split(strings.Trim(help, "\n"), "\n"), "any key goes back"
	default:
		body = m.panes()
	}
	if m.mode == inFilter {
		keys = "filter: " + term.Escape(m.filter) + "_"
	}
	lines := append([]string{m.line1(title, term.Bold)}, body[:min(len(body), m.room())]...)
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	lines = append(lines, m.line1(m.message, term.Yellow), m.line1(keys, ""))
	v := tea.NewView(strings.Join(lines[max(0, len(lines)-max(1, m.height)):], "\n"))
	v.AltScreen = true
	return v
}

func (m *model) line1(text, style string) string {
	return m.style(ansi.TruncateWc(text, m.width, "…"), style)
}

func (m *model) style(text, style string) string {
	if style == "" || !m.Colour && style != term.Reverse && style != term.Bold {
		return text
	}
	return style + text + term.Plain
}

// counted says how much is chosen.
func (m *model) counted(list []Choice) string {
	files, parts, hunks := 0, 0, 0
	for _, c := range list {
		if c.Hunks == nil {
			files++
		} else {
			parts, hunks = parts+1, hunks+len(c.Hunks)
		}
	}
	text := term.Count(files, "file")
	if parts > 0 {
		text += fmt.Sprintf(" and %s of %s", term.Count(hunks, "hunk"), term.Count(parts, "file"))
	}
	return strings.TrimPrefix(text, "0 files and ")
}

func (m *model) panes() []string {
	left, right := m.files(), m.diff()
	if m.width < narrow {
		if m.mode == inDiff {
			return right
		}
		return left
	}
	lines := make([]string, m.room())
	for i := range lines {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		lines[i] = l + strings.Repeat(" ", max(0, m.listWidth()-ansi.StringWidthWc(l))) + " │ " + r
	}
	return lines
}

// files are the rows of the list that are in view.
func (m *model) files() []string {
	first := max(0, min(m.at-m.room()/2, len(m.shown)-m.room()))
	var lines []string
	for i := first; i < min(len(m.shown), first+m.room()); i++ {
		mark, style := "  ", ""
		if i == m.at {
			mark, style = "> ", term.Bold
			if m.mode != inDiff {
				style = term.Reverse
			}
		}
		lines = append(lines, m.style(ansi.TruncateWc(mark+m.fileLine(m.shown[i]), m.listWidth(), "…"), style))
	}
	if len(lines) == 0 {
		lines = []string{"  no file has that in its name"}
	}
	return lines
}

func (m *model) fileLine(file int) string {
	if file < 0 {
		return "summary"
	}
	f, counts := m.Files[file], ""
	name := term.Escape(f.Name)
	if f.Why != "" {
		name = f.mark() + name + " (" + term.Escape(f.Why) + ")"
	}
	if f.Change == nil {
		return "    " + name
	}
	switch c := f.Change; {
	case c.Binary:
		counts = "binary"
	case c.Added+c.Removed > 0:
		counts = fmt.Sprintf("+%d -%d", c.Added, c.Removed)
	default:
		counts = string(c.Status)
	}
	room := m.listWidth() - 2 - 4 - len(counts) - 1
	name = ansi.TruncateWc(name, max(8, room), "…")
	return m.box(file, -1) + " " + name + strings.Repeat(" ", max(1, room-ansi.StringWidthWc(name)+1)) + counts
}

// box says whether a file or a hunk is chosen.
func (m *model) box(file, hunk int) string {
	switch hunks, chosen := m.chosen[file]; {
	case chosen && (hunks == nil || hunks[hunk]):
		return "[x]"
	case chosen && hunk < 0:
		return "[~]"
	}
	return "[ ]"
}

// mark says that tools of the host execute it.
func (f File) mark() string {
	switch {
	case f.First:
		return "! "
	case f.Why != "":
		return "* "
	}
	return ""
}

// heading is what is said of a file above its diff.
func heading(f File, d review.FileDiff) []string {
	lines := []string{term.Escape(f.Name)}
	if f.Why != "" {
		lines = append(lines, f.mark()+"tools of the host execute it: "+term.Escape(f.Why))
	}
	c := f.Change
	if c == nil {
		return append(lines, "no part of the changes: apply does not bring it")
	}
	lines = append(lines, c.What())
	switch {
	case d.Binary:
		lines = append(lines, "binary: it is not shown")
	case d.Cut:
		lines = append(lines, "too long: only the beginning is shown, and hunks can't be chosen; diff --no-screen shows all")
	}
	return lines
}

// summary is what stands beside the first row of the list.
func (m *model) summary() []string {
	lines := []string{"There are no changes."}
	if len(m.Files) > 0 {
		lines = []string{fmt.Sprintf("%s changed", term.Count(len(m.Files), "file"))}
	}
	for _, text := range m.Summary {
		lines = append(lines, term.Escape(text))
	}
	return wrap(lines, m.diffWidth()-1)
}

// wrap breaks lines at a width.
func wrap(lines []string, width int) []string {
	return strings.Split(ansi.WrapWc(strings.Join(lines, "\n"), max(1, width), ""), "\n")
}

// diff are the rows of the diff that are in view.
func (m *model) diff() []string {
	file := m.file()
	p := m.page()
	var head []string
	switch {
	case file < 0:
		head = m.summary()
	case m.Files[file].Change == nil:
		head = wrap(heading(m.Files[file], review.FileDiff{}), m.diffWidth()-1)
	case p == nil:
		head = []string{"looking ..."}
	default:
		p.layOut(m.diffWidth())
		head = p.top
	}
	all := len(head)
	if p != nil {
		all += len(p.rows)
	}
	m.line = max(0, min(m.line, all-1))
	m.top = max(0, min(m.top, m.line, all-m.room()))
	m.top = max(m.top, m.line-m.room()+1)
	var lines []string
	for i := m.top; i < min(all, m.top+m.room()); i++ {
		mark := " "
		if i == m.line && m.mode == inDiff {
			mark = ">"
		}
		if i < len(head) {
			style := ""
			if i == 0 && file >= 0 {
				style = term.Bold
			} else if file >= 0 && m.Files[file].Why != "" {
				style = term.Yellow
			}
			lines = append(lines, m.style(mark+head[i], style))
			continue
		}
		r := p.rows[i-len(head)]
		lines = append(lines, p.draw(r, mark, m.box(file, int(r.hunk)), m.Colour))
	}
	if p != nil && !p.Cut && !p.Binary && (m.width >= narrow || m.mode == inDiff) && !m.seen[file] && p.show(m.top, m.top+len(lines), all) {
		m.seen[file] = true
		m.Shown(file)
	}
	return lines
}

// dialogue says what applying does.
func (m *model) dialogue() (lines []string, keys string) {
	list, all := m.choices()
	what := m.counted(list)
	if all {
		what = "everything"
	}
	as := ""
	if m.plain {
		as = " as changes that are not committed"
	}
	lines, keys = []string{"Apply " + what + as}, "esc back"
	add := func(text string) {
		lines = append(lines, wrap([]string{term.Escape(text)}, m.width-1)...)
	}
	for _, text := range m.said.lines {
		add(text)
	}
	switch err := m.said.err; {
	case m.doing:
		return append(lines, "applying ..."), "wait"
	case m.waiting:
		return append(lines, "looking what that does ..."), keys
	case err != nil:
		add(err.Error())
		if hint := forage.Hint(err); hint != "" {
			add("hint: " + hint)
		}
		if m.said.done {
			return lines, "any key goes back"
		}
		return lines, "w commit or plain changes  any other key goes back"
	case m.said.done:
		return lines, "any key: what is left"
	}
	return lines, "y apply  w commit or plain changes  n back"
}

const help = `
space         choose the file, or in the diff the hunk under the cursor
a             choose all files that are listed, or none
A             apply what is chosen; first you see what that does
n p           next hunk, hunk before
tab           the other side; also h l, left right, enter
/             show only files with a text in their names; esc shows all
up down       also k j, page up and down, home end
q             leave

! marks what tools of the host would execute. [x] is chosen, [~] in parts.
A file counts as shown when every line of its diff has been on the screen.
`
