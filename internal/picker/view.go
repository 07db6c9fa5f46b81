package picker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"forage/internal/term"
)

// chrome is how many lines are not rows: title, heads, message and keys.
const chrome = 4

func (m *model) View() tea.View {
	var head, body []string
	mark, keys := -1, ""
	switch m.mode {
	case inRefused:
		head = []string{term.Escape(m.about) + " was refused:"}
		for _, r := range m.told.refusals {
			body = append(body, term.Escape(r.Text))
		}
		mark, keys = m.cursor, "a allow it  esc back"
		switch {
		case m.waiting:
			body, mark = []string{"looking ..."}, -1
		case m.told.err != nil:
			body, mark = []string{term.Escape(oneLine(m.told.err.Error()))}, -1
		case len(body) == 0:
			body, mark = []string{"nothing since it was started, or all of it is allowed now"}, -1
		}
	case inDown:
		head, body, keys = m.downText()
	case inForm:
		head, body, mark, keys = m.formText()
	case inHelp:
		head, body, keys = []string{"Keys"}, strings.Split(strings.TrimSpace(help), "\n"), "any key goes back"
	default:
		head, body, mark = m.listText()
		keys = "enter attach  s shell  l logs  v diff  a refused  d down  n new  / filter  ? q"
	}
	if m.mode == inFilter {
		keys = "filter: " + term.Escape(m.filter) + "_"
	}
	v := tea.NewView(m.frame(head, body, mark, keys))
	v.AltScreen = true
	return v
}

// frame puts lines on the screen: each cut to its width, the marked one in view. What is chosen has
// a mark too: nothing is said by a style alone.
func (m *model) frame(head, body []string, mark int, keys string) string {
	lines := make([]string, 0, m.height)
	add := func(prefix, style, text string) {
		lines = append(lines, style+ansi.TruncateWc(prefix+text, m.width, "…")+term.Plain)
	}
	for _, line := range head {
		add("  ", term.Bold, line)
	}
	room := max(1, m.height-len(head)-2)
	first := min(max(0, mark-room+1), max(0, len(body)-room))
	for i := first; i < min(first+room, len(body)); i++ {
		if i == mark {
			add("> ", term.Reverse, body[i])
		} else {
			add("  ", "", body[i])
		}
	}
	for len(lines) < m.height-2 {
		lines = append(lines, "")
	}
	add("  ", term.Yellow, cmp.Or(m.message, m.chosenText()))
	add("  ", "", keys)
	return strings.Join(lines[max(0, len(lines)-max(1, m.height)):], "\n")
}

// chosenText says what the chosen sandbox asks for, and on which ports servers inside listen.
func (m *model) chosenText() string {
	place := m.place()
	if m.mode != inList || place < 0 {
		return ""
	}
	var texts []string
	if row := m.shown()[place]; row.Page != "" {
		texts = append(texts, "o opens a page of "+term.Escape(row.Page))
	}
	if row := m.shown()[place]; row.Ports != "" {
		texts = append(texts, "listening: "+term.Escape(row.Ports))
	}
	return strings.Join(texts, "  ")
}

// listText is the table, within the width of the screen.
func (m *model) listText() (head, body []string, mark int) {
	shown := m.shown()
	title := fmt.Sprintf("Sandboxes: %d", len(m.rows))
	if m.filter != "" {
		title += ", filter: " + term.Escape(m.filter)
	}
	cells := [][]string{{"NAME", "AGENT", "STATE", "AGE", "BRANCH", "UNSAVED", "REFUSED", "TRAFFIC"}}
	for _, r := range shown {
		row := []string{r.Name, r.Agent, r.State, m.Age(time.Since(r.Created)), r.Branch, r.Unsaved, r.Refused, r.Traffic}
		for i := range row {
			row[i] = term.Escape(row[i])
		}
		cells = append(cells, row)
	}
	body = columns(cells, m.width-2, 0, 1, 4)
	head, body = []string{title, body[0]}, body[1:]
	switch {
	case !m.known:
		body = []string{"looking ..."}
	case len(m.rows) == 0:
		body = []string{"There is none yet: n makes one."}
	case len(shown) == 0:
		body = []string{"The filter leaves none: esc takes it away."}
	}
	return head, body, m.place()
}

// columns are the rows as lines of so many cells. The elastic columns are made narrower for that,
// the widest first.
func columns(rows [][]string, width int, elastic ...int) []string {
	const gap, least = 2, 8
	widths := make([]int, len(rows[0]))
	total := gap * (len(widths) - 1)
	for i := range widths {
		for _, row := range rows {
			widths[i] = max(widths[i], ansi.StringWidthWc(row[i]))
		}
		total += widths[i]
	}
	for ; total > width; total-- {
		widest := slices.MaxFunc(elastic, func(a, b int) int { return widths[a] - widths[b] })
		if widths[widest] <= least {
			break
		}
		widths[widest]--
	}
	lines := make([]string, len(rows))
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			cell = ansi.TruncateWc(cell, widths[j], "…")
			line.WriteString(cell + strings.Repeat(" ", widths[j]-ansi.StringWidthWc(cell)+gap))
		}
		lines[i] = strings.TrimRight(line.String(), " ")
	}
	return lines
}

func (m *model) downText() (head, body []string, keys string) {
	head = []string{"Take down " + term.Escape(m.about) + "?"}
	switch {
	case m.waiting:
		return head, []string{"looking what would be lost ..."}, "esc back"
	case m.told.err == nil:
		return head, []string{"Nothing would be lost."}, "y take it down  any other key goes back"
	}
	text := term.Escape(oneLine(m.told.err.Error()))
	body = strings.Split(ansi.WrapWc(text, max(1, m.width-2), ""), "\n")
	return head, append(body, "", "With F it is taken down all the same, and the work is kept for 30 days."), "F take it down  any other key goes back"
}

func (m *model) formText() (head, body []string, mark int, keys string) {
	f, template, mode := m.form, "", folderModes[m.form.mode].text
	if f.template < len(m.Templates) {
		template = m.Templates[f.template].Name
	}
	body = []string{
		fieldName: "name      " + term.Escape(f.name), fieldTemplate: "template  < " + term.Escape(template) + " >",
		fieldFolder: "folder    " + term.Escape(f.folder), fieldMode: "it gets   < " + mode + " >",
		fieldBranch: "branch    " + term.Escape(f.branch),
		fieldTask:   "task      " + term.Escape(f.task),
	}
	if f.text(m.cursor) != nil {
		body[m.cursor] += "_"
	}
	return []string{"A new sandbox"}, body, m.cursor, "tab next  left, right choose  enter next, at the task: make it  esc back"
}

const help = `
enter         attach to the agent; Ctrl-b d comes back
s             a shell beside the agent
l             what the agent printed
v             review what it changed, and apply it
o             a page that a program inside asks you to open
a             what it was refused; a again allows what the cursor is on
d             take down; first you see what would be lost
n             a new sandbox; without a task the template's agent starts
/             show only what has a text in name, agent, state or branch
up down       also k j, page up and down, home end
q             leave; all sandboxes go on
`
