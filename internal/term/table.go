package term

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"unicode/utf8"
)

// Table is text in columns. Every cell is escaped, so that what an agent named
// something can't look like another row.
type Table struct {
	rows [][]string
}

// NewTable makes a table that begins with that row.
func NewTable(cells ...string) *Table {
	t := &Table{}
	t.Row(cells...)
	return t
}

// Row adds a row.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = Escape(cell)
	}
	t.rows = append(t.rows, row)
}

// Write writes the table to w, columns two spaces apart.
func (t *Table) Write(w io.Writer) error {
	widths := t.widths()
	var b bytes.Buffer
	for _, row := range t.rows {
		for i, cell := range row {
			b.WriteString(cell)
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

// JSON writes v to w, indented, with one line end. What a terminal could act on
// is escaped as JSON escapes it.
func JSON(w io.Writer, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(jsonSafe(text), '\n'))
	return err
}

// Fit shortens the cells of some columns, the widest first, until the table fits so many
// characters.
func (t *Table) Fit(width int, columns ...int) {
	widths := t.widths()
	total := 2 * (len(widths) - 1)
	for _, w := range widths {
		total += w
	}
	for ; total > width; total-- {
		widest := columns[0]
		for _, column := range columns {
			if widths[column] > widths[widest] {
				widest = column
			}
		}
		if widths[widest] <= minColumn {
			break
		}
		widths[widest]--
	}
	for _, row := range t.rows {
		for _, column := range columns {
			if cell := []rune(row[column]); len(cell) > widths[column] {
				row[column] = string(cell[:widths[column]-1]) + "…"
			}
		}
	}
}

// minColumn is what a column keeps in any case, in characters.
const minColumn = 8

// widths are those of the columns, in characters.
func (t *Table) widths() []int {
	var widths []int
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	return widths
}
