package review

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// How a patch is shown.
const (
	maxLine   = 8 << 10        // bytes of a line; the rest is left out, with a word
	readLimit = 24 * time.Hour // a pager stays open as long as somebody reads
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
	return p.end()
}

// patchWriter takes a unified diff and passes it on by lines, escaped and coloured. Inside a hunk a line is what its first
// character says, for as many lines as the head of the hunk counts: no content looks like a head.
type patchWriter struct {
	out      io.Writer
	colour   bool
	line     []byte
	cut      int // bytes of the line that are left out
	old, new int // lines of the hunk that are to come
	err      error
}

// Write implements io.Writer.
func (p *patchWriter) Write(text []byte) (int, error) {
	for _, c := range text {
		switch {
		case c == '\n':
			p.flush()
		case len(p.line) < maxLine:
			p.line = append(p.line, c)
		default:
			p.cut++
		}
		if p.err != nil {
			return 0, p.err
		}
	}
	return len(text), nil
}

func (p *patchWriter) end() error {
	if len(p.line) > 0 {
		p.flush()
	}
	return p.err
}

// Colours of ECMA-48, as git has them.
const (
	bold    = "\x1b[1m"
	red     = "\x1b[31m"
	green   = "\x1b[32m"
	cyan    = "\x1b[36m"
	noColor = "\x1b[m"
)

func (p *patchWriter) flush() {
	line := string(p.line)
	colour := p.kind(line)
	text := escapeLine(line)
	if p.cut > 0 {
		text += fmt.Sprintf(" [%d more bytes of this line]", p.cut)
	}
	if p.colour && colour != "" {
		text = colour + text + noColor
	}
	_, p.err = io.WriteString(p.out, text+"\n")
	p.line, p.cut = p.line[:0], 0
}

// kind is the colour of a line, and counts it.
func (p *patchWriter) kind(line string) string {
	if p.old <= 0 && p.new <= 0 {
		var oldLines, newLines int
		if !strings.HasPrefix(line, "@@ ") {
			return bold
		}
		ranges := strings.Fields(line)
		if len(ranges) < 3 || !lines(ranges[1], &oldLines) || !lines(ranges[2], &newLines) {
			return bold
		}
		p.old, p.new = oldLines, newLines
		return cyan
	}
	switch {
	case strings.HasPrefix(line, "+"):
		p.new--
		return green
	case strings.HasPrefix(line, "-"):
		p.old--
		return red
	case strings.HasPrefix(line, `\`): // no newline at the end of the file
		return ""
	}
	p.old--
	p.new--
	return ""
}

// lines reads how many lines "-1,5" has: one when it doesn't say.
func lines(text string, n *int) bool {
	_, count, ok := strings.Cut(text, ",")
	if !ok {
		*n = 1
		return true
	}
	_, err := fmt.Sscan(count, n)
	return err == nil
}

// escapeLine is term.Escape but for tabs, which are how most code is indented.
func escapeLine(line string) string {
	parts := strings.Split(line, "\t")
	for i, part := range parts {
		parts[i] = term.Escape(part)
	}
	return strings.Join(parts, "\t")
}
