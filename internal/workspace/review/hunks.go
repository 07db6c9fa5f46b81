package review

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// Bounds of what FileDiffs keeps, of a file and of all. What is to be looked at first has as much again.
const (
	maxShown, maxShownLines       = 256 << 10, 3000
	maxAllShown, maxAllShownLines = 2 << 20, 20_000
)

// Bounds of the diff of one file.
const (
	maxDiff      = 2 << 20  // bytes
	maxDiffLines = 50_000   // lines
	maxSeen      = 20_000   // files that are remembered as shown
	maxOld       = 17 << 20 // bytes of a file of which hunks are chosen: above bigFile
)

// FileDiff is what was done to the content of one file.
type FileDiff struct {
	Hunks  []Hunk
	Binary bool
	Cut    bool // the rest is left out: no hunk can be chosen
}

// Hunk is a place that changed. Its lines are as they are in the files: escape them.
type Hunk struct {
	Old, OldLines, New, NewLines int // first line, from 1, and how many
	Lines                        []Line
}

// Line is one line of a hunk, without its end.
type Line struct {
	Kind byte // ' ', '-' or '+'
	Text string
	Open bool // the file ends here, without an end of the line
}

// String is the line with what happened to it in front, escaped but for tabs.
func (l Line) String() string { return string(l.Kind) + escapeLine(l.Text) }

// Head says where it is, as git does.
func (h Hunk) Head() string {
	return fmt.Sprintf("@@ -%d,%d +%d,%d @@", h.Old, h.OldLines, h.New, h.NewLines)
}

// Pick is what the user chose of what a review showed.
type Pick struct {
	Content string // all of this; "": these files
	Files   []Picked
}

// Picked is one file. The change has the objects that were shown, so nothing else can be applied.
type Picked struct {
	Change Change
	Hunks  []int // of FileDiff; nil: all of the file
}

// All chooses everything that is shown.
func (s *Session) All() Pick { return Pick{Content: s.content()} }

// Divisible says whether hunks of a file can be chosen.
func (c Change) Divisible() bool {
	return !c.Binary && c.OldMode&^0o777 == modeFile && c.NewMode&^0o777 == modeFile
}

// FileDiff compares the content of a file that was changed. It reads objects, which never change.
func (s *Session) FileDiff(ctx context.Context, c Change) (FileDiff, error) {
	if c.Binary || c.oldID == c.newID || c.OldMode == modeGitlink || c.NewMode == modeGitlink {
		return FileDiff{Binary: c.Binary}, nil
	}
	ids := []string{c.oldID, c.newID}
	for i, mode := range []uint32{c.OldMode, c.NewMode} {
		if mode != 0 {
			continue
		}
		empty, err := s.writeBlob(ctx, nil)
		if err != nil {
			return FileDiff{}, err
		}
		ids[i] = empty
	}
	out := &bounded{}
	_, err := s.staging.Git(ctx, gitrepo.Call{Args: slices.Concat(hunkConfig, []string{"diff"}, hunkOptions, []string{ids[0], ids[1], "--"}), Writer: out})
	if err != nil && !out.full {
		return FileDiff{}, fmt.Errorf("making a diff: %w", err)
	}
	return parseDiff(out.text.String(), out.full)
}

// hunkConfig and hunkOptions are with what hunks are found: their numbers stand for the same lines always.
var (
	hunkConfig  = []string{"-c", bigFile, "-c", "diff.algorithm=myers"}
	hunkOptions = []string{
		"-p", "-U3", "--inter-hunk-context=0", "--no-color", "--no-ext-diff", "--no-textconv", "--no-indent-heuristic",
		"--output-indicator-context=" + same, "--output-indicator-old=" + removed, "--output-indicator-new=" + added,
	}
)

// FileDiffs compares all files at once, in the order of Changes: git writes its diffs in the order of
// its list, and where the type of a file changed, one for each type. What is too long is cut.
func (s *Session) FileDiffs(ctx context.Context) ([]FileDiff, error) {
	first, out := s.First(), &splitDiff{at: -1}
	for i, c := range s.Changes {
		b := fileText{change: i, room: &out.room[0]}
		if first[c.Path] {
			b.room = &out.room[1]
		}
		if out.files = append(out.files, b); c.OldMode != 0 && c.NewMode != 0 && c.OldMode&^0o777 != c.NewMode&^0o777 {
			out.files = append(out.files, b)
		}
	}
	diffs := make([]FileDiff, len(s.Changes))
	if len(diffs) == 0 {
		return diffs, nil
	}
	args := slices.Concat(hunkConfig, []string{"diff-tree", "-r", "-M", "-l2000", "--ignore-submodules=none", "--submodule=short"}, hunkOptions, []string{s.base, s.Tree})
	if _, err := s.staging.Git(ctx, gitrepo.Call{Args: args, Writer: out}); err != nil {
		return nil, fmt.Errorf("making a diff: %w", err)
	}
	if out.at != len(out.files)-1 {
		return nil, fmt.Errorf("git made %d diffs of %d", out.at+1, len(out.files))
	}
	for _, f := range out.files {
		d, err := parseDiff(f.text.String(), f.cut)
		if err != nil {
			return nil, err
		}
		to := &diffs[f.change]
		to.Hunks, to.Binary, to.Cut = append(to.Hunks, d.Hunks...), to.Binary || d.Binary, to.Cut || d.Cut
	}
	return diffs, nil
}

// First are the files to be looked at before all others: apply wants them shown.
func (s *Session) First() map[string]bool {
	first := map[string]bool{}
	for _, f := range s.Findings {
		first[f.Path] = true
	}
	for _, path := range s.Attributes(nil) {
		first[path] = true
	}
	return first
}

// splitDiff keeps the beginning of each diff that git writes.
type splitDiff struct {
	files []fileText
	at    int     // of files
	room  [2]used // of all files, and of those to be looked at first
	line  []byte
}

type used struct{ bytes, lines int }

type fileText struct {
	change int // of which
	text   bytes.Buffer
	lines  int
	room   *used
	cut    bool
}

// Write implements io.Writer. Each line of a diff has an end.
func (d *splitDiff) Write(text []byte) (int, error) {
	for line := range bytes.Lines(text) {
		if len(d.line) <= maxShown { // else it is cut anyway
			d.line = append(d.line, line...)
		}
		if bytes.HasSuffix(line, []byte("\n")) {
			d.end()
			d.line = d.line[:0]
		}
	}
	return len(text), nil
}

func (d *splitDiff) end() {
	if bytes.HasPrefix(d.line, []byte("diff --git ")) { // a line of content begins with a sign, and git quotes names
		d.at++
	}
	if d.at < 0 || d.at >= len(d.files) {
		return
	}
	f, size, content := &d.files[d.at], len(d.line), 0
	if d.line[0] < ' ' {
		content = 1
	}
	f.cut = f.cut || f.text.Len()+size > maxShown || f.lines+content > maxShownLines || f.room.bytes+size > maxAllShown || f.room.lines+content > maxAllShownLines
	if !f.cut {
		f.text.Write(d.line)
		f.lines, f.room.bytes, f.room.lines = f.lines+content, f.room.bytes+size, f.room.lines+content
	}
}

func (s *Session) writeBlob(ctx context.Context, content []byte) (string, error) {
	if content == nil { // else git reads a terminal
		content = []byte{}
	}
	id, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"hash-object", "-w", "--stdin"}, Stdin: content})
	return strings.TrimSpace(string(id)), err
}

// bounded takes the beginning of what git writes.
type bounded struct {
	text  bytes.Buffer
	lines int
	full  bool
}

var errFull = errors.New("the diff is too long")

func (b *bounded) Write(p []byte) (int, error) {
	b.lines += bytes.Count(p, []byte("\n"))
	b.full = b.full || b.text.Len()+len(p) > maxDiff || b.lines > maxDiffLines
	if b.full {
		return 0, errFull
	}
	return b.text.Write(p)
}

// parseDiff reads the diff of one file. What was cut ends somewhere.
func parseDiff(text string, cut bool) (FileDiff, error) {
	d := FileDiff{Cut: cut}
	for line := range strings.Lines(text) {
		ended := strings.HasSuffix(line, "\n")
		if !ended && cut {
			break
		}
		line = strings.TrimSuffix(line, "\n")
		last := len(d.Hunks) - 1
		if strings.HasPrefix(line, "@@ -") {
			var h Hunk
			sides := strings.SplitN(line[len("@@ -"):]+"  ", " ", 3)
			if !span(sides[0], &h.Old, &h.OldLines) || !span(strings.TrimPrefix(sides[1], "+"), &h.New, &h.NewLines) {
				return d, fmt.Errorf("git says of a hunk %q", line)
			}
			d.Hunks = append(d.Hunks, h)
			continue
		}
		if last < 0 || line == "" {
			d.Binary = d.Binary || strings.HasPrefix(line, "Binary files ")
			continue
		}
		h := &d.Hunks[last]
		switch kind := line[:1]; {
		case kind == `\` && len(h.Lines) > 0:
			h.Lines[len(h.Lines)-1].Open = true
		case kind == same, kind == removed, kind == added:
			h.Lines = append(h.Lines, Line{Kind: map[string]byte{same: ' ', removed: '-', added: '+'}[kind], Text: line[1:]})
		default:
			return d, fmt.Errorf("git says in a diff %q", line)
		}
	}
	return d, nil
}

// span reads "FIRST,COUNT", or "FIRST" of one line.
func span(text string, first, count *int) bool {
	before, after, counted := strings.Cut(text, ",")
	if !counted {
		after = "1"
	}
	var errs [2]error
	*first, errs[0] = strconv.Atoi(before)
	*count, errs[1] = strconv.Atoi(after)
	return errs[0] == nil && errs[1] == nil && *first >= 0 && *count >= 0
}

// patched is the old content with some of the hunks.
func patched(old string, hunks []Hunk, chosen []int) ([]byte, error) {
	lines := strings.SplitAfter(old, "\n")
	if lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	var out bytes.Buffer
	at := 0 // lines of old that are done
	copyTo := func(end int) {
		for ; at < end; at++ {
			out.WriteString(lines[at])
		}
	}
	for i, h := range hunks {
		first := h.Old - 1
		if h.OldLines == 0 { // it comes after that line
			first = h.Old
		}
		if first < at || first+h.OldLines > len(lines) {
			return nil, errors.New("a hunk is not where the file has it")
		}
		copyTo(first)
		var was, is strings.Builder
		for _, line := range h.Lines {
			text := line.Text
			if !line.Open {
				text += "\n"
			}
			if line.Kind != '+' {
				was.WriteString(text)
			}
			if line.Kind != '-' {
				is.WriteString(text)
			}
		}
		if was.String() != strings.Join(lines[first:first+h.OldLines], "") {
			return nil, errors.New("a hunk has other lines than the file")
		}
		if slices.Contains(chosen, i) {
			out.WriteString(is.String())
			at += h.OldLines
		}
	}
	copyTo(len(lines))
	return out.Bytes(), nil
}

// pickTree is the base with what was picked. It refuses what is not as it was shown.
func (s *Session) pickTree(ctx context.Context, p Pick) (string, error) {
	there := s.Changes
	if s.work != s.Tree {
		var err error
		if there, err = diffTrees(ctx, s.staging, s.base, s.work, "--numstat", "-M", "-l2000"); err != nil {
			return "", err
		}
	}
	var changes []Change
	for _, f := range p.Files {
		c := f.Change
		if !slices.Contains(there, c) {
			if slices.Contains(s.Changes, c) {
				return "", forage.Errorf(forage.ErrRefused, "%s is not committed: of your own folder the commits come, its files are yours already", term.Escape(c.Path))
			}
			return "", s.otherThanShown(c.Path)
		}
		if c.Status == Renamed {
			changes = append(changes, Change{Path: c.OldPath, newID: strings.Repeat("0", len(c.oldID))})
		}
		if f.Hunks != nil {
			if s.subject.direct() {
				return "", forage.WithHint(forage.Errorf(forage.ErrRefused, "the folder is your own: single hunks of it can't be applied"), "`git add -p` chooses them")
			}
			var err error
			if c.newID, err = s.pickHunks(ctx, c, f.Hunks); err != nil {
				return "", err
			}
		}
		changes = append(changes, c)
	}
	return s.edit(ctx, s.base, changes)
}

func (s *Session) otherThanShown(what string) error {
	return forage.WithHint(forage.Errorf(forage.ErrRefused, "%s was changed since it was shown", term.Escape(what)),
		"look at it again with `forage-ctl diff "+s.subject.Sandbox+"`")
}

// pickHunks makes the file that has some of the hunks of a change.
func (s *Session) pickHunks(ctx context.Context, c Change, chosen []int) (string, error) {
	d, err := s.FileDiff(ctx, c)
	if err != nil {
		return "", err
	}
	if !c.Divisible() || d.Cut || d.Binary {
		return "", forage.Errorf(forage.ErrRefused, "no hunks of %s can be chosen", term.Escape(c.Path))
	}
	old, err := s.staging.Git(ctx, gitrepo.Call{Args: []string{"cat-file", "blob", c.oldID}, Output: maxOld})
	if err != nil {
		return "", err
	}
	content, err := patched(string(old), d.Hunks, chosen)
	if err != nil {
		return "", fmt.Errorf("choosing hunks of %s: %w", term.Escape(c.Path), err)
	}
	return s.writeBlob(ctx, content)
}

// pickedTree is the tree that is selected, and a word for each path in it.
func (s *Session) pickedTree(ctx context.Context, o Options) (tree string, paths []string, err error) {
	if o.Pick == nil {
		tree, err = s.selectTree(ctx, o.Paths)
		return tree, o.Paths, err
	}
	tree, err = s.pickTree(ctx, *o.Pick)
	return tree, o.Pick.Paths(), err
}

// Paths are the files that are chosen, under their old names too; nil is all.
func (p Pick) Paths() (paths []string) {
	for _, f := range p.Files {
		paths = append(paths, f.Change.Path)
		if f.Change.OldPath != "" {
			paths = append(paths, f.Change.OldPath)
		}
	}
	return paths
}

// selects says whether only a part is to be brought.
func (o Options) selects() bool { return len(o.Paths) > 0 || o.Pick != nil && o.Pick.Content == "" }

// asShown refuses a pick of everything if that is something else by now.
func (s *Session) asShown(p *Pick) error {
	if p != nil && p.Content != "" && p.Content != s.content() {
		return s.otherThanShown("the workspace")
	}
	return nil
}

// MarkFiles remembers that the user has seen these changes, to their ends.
func (s *Session) MarkFiles(ctx context.Context, seen []Change) error {
	if len(seen) == 0 {
		return nil
	}
	return s.subject.update(ctx, func(state *state) {
		for _, c := range seen {
			state.Files = append(state.Files, c.mark())
		}
		state.Files = state.Files[max(0, len(state.Files)-maxSeen):]
		slices.Sort(state.Files)
		state.Files = slices.Compact(state.Files)
		s.state.Files = state.Files
	})
}

// ID names a change for a request: of what, and what it is. Names may be no UTF-8.
func (c Change) ID() string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q %o %o %s %s", c.OldPath, c.Path, c.OldMode, c.NewMode, c.oldID, c.newID)))
}

// What says what happened to the file, beside its content.
func (c Change) What() string {
	text := string(c.Status)
	if c.OldPath != "" {
		text += " from " + term.Escape(c.OldPath)
	}
	if c.OldMode != c.NewMode && c.OldMode != 0 && c.NewMode != 0 {
		text += fmt.Sprintf(", mode %o to %o", c.OldMode, c.NewMode)
	}
	if c.OldMode == modeGitlink || c.NewMode == modeGitlink {
		text += ", a submodule: git has a commit of it here, and no files"
	}
	return text
}

// mark names a file and what is in it now.
func (c Change) mark() string { return fmt.Sprintf("%o %s %s", c.NewMode, c.newID, c.Path) }

// SeenFile says whether the user was shown this file as it is.
func (s *Session) SeenFile(path string) bool {
	i := slices.IndexFunc(s.Changes, func(c Change) bool { return c.Path == path })
	return i >= 0 && slices.Contains(s.state.Files, s.Changes[i].mark())
}
