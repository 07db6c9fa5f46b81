package review

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// How a patch is shown.
const (
	maxLine   = 8 << 10        // bytes of a line that are kept until they are written
	readLimit = 24 * time.Hour // a pager may be open
)

// Patch writes the changes as a unified diff that is safe on a terminal: whatever a terminal could act on is escaped, tabs
// excepted, in names and in contents. It is for people: what is escaped doesn't apply as a patch any more. Memory is
// bounded by the size at which git takes a file for binary.
func (s *Session) Patch(ctx context.Context, out io.Writer, colour bool) error {
	if len(s.Changes) == 0 {
		return nil
	}
	p := &patchWriter{out: out, colour: colour}
	_, err := s.staging.Git(ctx, gitrepo.Call{
		Args: []string{
			"-c", bigFile, "diff-tree", "-r", "-p", "-M", "-l2000", "--no-color", "--no-ext-diff", "--no-textconv",
			"--output-indicator-context=" + same, "--output-indicator-old=" + removed, "--output-indicator-new=" + added,
			"--ignore-submodules=none", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", s.base, s.Tree,
		},
		Writer: p, Timeout: readLimit,
	})
	if p.err != nil {
		return p.err
	}
	if err != nil {
		return fmt.Errorf("making a diff: %w", err)
	}
	return nil
}

// git begins each line of content with one of these in the place of a space, - and +. No line of a head begins so: git quotes names.
const (
	same    = "\x01"
	removed = "\x02"
	added   = "\x03"
)

// patchWriter takes a diff and passes it on by lines, escaped and coloured.
type patchWriter struct {
	out    io.Writer
	colour bool
	line   []byte
	inside bool   // a part of the line is written
	style  string // of the line
	err    error
}

// Write implements io.Writer. Each line of a diff has an end. All of it is written: what is left out
// could be the point.
func (p *patchWriter) Write(text []byte) (int, error) {
	for _, c := range text {
		switch {
		case c == '\n':
			p.flush("\n")
		case len(p.line) >= maxLine && utf8.RuneStart(c), len(p.line) >= maxLine+utf8.UTFMax:
			p.flush("")
			fallthrough
		default:
			p.line = append(p.line, c)
		}
		if p.err != nil {
			return 0, p.err
		}
	}
	return len(text), nil
}

// flush writes what there is of the line, and its end if that is there.
func (p *patchWriter) flush(end string) {
	line, first := string(p.line), ""
	if !p.inside {
		p.style = term.Bold
		for _, kind := range [...]struct{ begin, as, colour string }{
			{same, " ", ""}, {removed, "-", term.Red}, {added, "+", term.Green}, {"@@ ", "@@ ", term.Cyan}, {`\ `, `\ `, ""},
		} {
			if rest, ok := strings.CutPrefix(line, kind.begin); ok {
				line, first, p.style = rest, kind.as, kind.colour
				break
			}
		}
	}
	text := first + escapeLine(line)
	if p.colour && p.style != "" {
		text = p.style + text + term.Plain
	}
	_, p.err = io.WriteString(p.out, text+end)
	p.line, p.inside = p.line[:0], end == ""
}

// escapeLine is term.Escape but for tabs, which are how most code is indented.
func escapeLine(line string) string {
	parts := strings.Split(line, "\t")
	for i, part := range parts {
		parts[i] = term.Escape(part)
	}
	return strings.Join(parts, "\t")
}
