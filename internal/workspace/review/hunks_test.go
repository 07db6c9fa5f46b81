package review

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testgit"
)

// pick chooses one file of what is open, and hunks of it.
func pick(t *testing.T, s *Session, path string, hunks []int) *Pick {
	t.Helper()
	i := slices.IndexFunc(s.Changes, func(c Change) bool { return c.Path == path })
	if i < 0 {
		t.Fatalf("%s is not among the changes", path)
	}
	return &Pick{Files: []Picked{{Change: s.Changes[i], Hunks: hunks}}}
}

// edited is a text and the same after random edits, with and without an end of the last line.
func edited(r *rand.Rand) (old, new string) {
	var before, after []string
	for i := range 20 + r.IntN(60) {
		line := fmt.Sprintf("line %d\n", r.IntN(8)*i%7)
		if r.IntN(6) == 0 {
			line = []string{"\n", "\ttab \x1b[31m\n", "@@ -1 +1 @@\n", "\\ No newline\n", "-- a\r\n", "\x01\x02\x03\n"}[r.IntN(6)]
		}
		before = append(before, line)
		switch r.IntN(9) {
		case 0:
		case 1:
			after = append(after, "new\n", line)
		case 2:
			after = append(after, fmt.Sprintf("other %d\n", i))
		default:
			after = append(after, line)
		}
	}
	cut := func(lines []string) string {
		return strings.TrimSuffix(strings.Join(lines, ""), []string{"", "\n"}[r.IntN(2)])
	}
	return cut(before), cut(after)
}

// TestHunksExactly compares what is chosen with what git apply makes of the same hunks.
func TestHunksExactly(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	files := map[string]string{}
	after := map[string]string{}
	for i := range 40 {
		name := fmt.Sprintf("f%d", i)
		files[name], after[name] = edited(r)
	}
	b := newBox(t, files)
	for name, text := range after {
		b.write(b.work.Dir, name, text)
	}
	s := b.open()
	git := testgit.Init(t, t.TempDir())
	together, err := s.FileDiffs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range s.Changes {
		d, err := s.FileDiff(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(d, together[i]); diff != "" {
			t.Errorf("%s alone, and with others:\n%s", c.Path, diff)
		}
		all := make([]int, len(d.Hunks))
		var some []int
		for i := range all {
			all[i] = i
			if r.IntN(2) == 0 {
				some = append(some, i)
			}
		}
		for _, want := range []struct {
			chosen []int
			text   string
		}{{nil, files[c.Path]}, {all, after[c.Path]}, {some, byGitApply(t, git, files[c.Path], d, some)}} {
			got, err := patched(files[c.Path], d.Hunks, want.chosen)
			if err != nil || string(got) != want.text {
				t.Errorf("hunks %v of %s: %v\n%q\n%q", want.chosen, c.Path, err, got, want.text)
			}
		}
	}
}

// TestFileDiffsAreOfTheirFiles: names and contents that look like a diff of another file take its
// place nowhere, and what is cut says so.
func TestFileDiffsAreOfTheirFiles(t *testing.T) {
	b := newBox(t, map[string]string{"moved": "1\n2\n3\n4\n5\n6\n", "link": "file\n", "gone": "gone\n", "same": "same\n", "script": "#!\n"})
	dir := b.work.Dir
	b.write(dir, ".gitattributes", "* -diff\n")
	b.work.Git("add", ".gitattributes")
	b.work.Git("commit", "-qm", "attributes")
	b.write(dir, ".envrc", "evil\n")
	b.write(dir, "! b/.envrc", "harmless\n")
	b.write(dir, "x\ndiff --git a/.envrc b/.envrc\n", "newline\n")
	b.write(dir, "not\xffutf8", "bytes\n")
	b.write(dir, "content", "diff --git a/.envrc b/.envrc\n\x01diff --git a/.envrc b/.envrc\n@@ -1 +1 @@\n+++ b/.envrc")
	b.write(dir, "crlf", "a\r\nb\r")
	b.write(dir, "binary", "a\x00b")
	b.write(dir, "empty", "")
	b.write(dir, "line", strings.Repeat("x", maxShown))
	b.write(dir, "lines", strings.Repeat("x\n", maxShownLines+1))
	for i := range 9 {
		b.write(dir, fmt.Sprintf("z%d", i), strings.Repeat(strings.Repeat("x", 1000)+"\n", maxShown/1001))
	}
	b.work.Git("mv", "moved", "to")
	for _, step := range []error{os.Remove(dir + "/link"), os.Symlink("file", dir+"/link"), os.Remove(dir + "/gone"), os.Chmod(dir+"/script", 0o755)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	s := b.open()
	diffs, err := s.FileDiffs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	cut, ids := 0, map[string]bool{}
	for i, c := range s.Changes {
		var text strings.Builder
		for _, h := range diffs[i].Hunks {
			for _, line := range h.Lines {
				text.WriteString(line.String() + "|")
			}
		}
		if got[c.Path] = text.String(); diffs[i].Cut {
			got[c.Path] = "cut"
		}
		if diffs[i].Binary {
			got[c.Path] = "binary"
		}
		if strings.HasPrefix(c.Path, "z") {
			if delete(got, c.Path); diffs[i].Cut {
				cut++
			}
		}
		ids[c.ID()] = true
	}
	want := map[string]string{
		".envrc": "+evil|", "! b/.envrc": "+harmless|", "x\ndiff --git a/.envrc b/.envrc\n": "+newline|", "not\xffutf8": "+bytes|",
		"content":        `+diff --git a/.envrc b/.envrc|+\x01diff --git a/.envrc b/.envrc|+@@ -1 +1 @@|++++ b/.envrc|`,
		".gitattributes": "+* -diff|",
		"crlf":           `+a\r|+b\r|`, "binary": "binary", "empty": "", "line": "cut", "lines": "cut", "to": "", "link": "-file|+file|", "gone": "-gone|", "script": "",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if cut == 0 || len(ids) != len(s.Changes) {
		t.Errorf("%d of all are cut, %d changes have %d names", cut, len(s.Changes), len(ids))
	}
}

// byGitApply has git apply the hunks.
func byGitApply(t *testing.T, git *testgit.Repo, old string, d FileDiff, chosen []int) string {
	t.Helper()
	if len(chosen) == 0 {
		return old
	}
	var patch strings.Builder
	patch.WriteString("--- a/f\n+++ b/f\n")
	for _, i := range chosen {
		h := d.Hunks[i]
		fmt.Fprintf(&patch, "@@ -%d,%d +%d,%d @@\n", h.Old, h.OldLines, h.New, h.NewLines)
		for _, line := range h.Lines {
			fmt.Fprintf(&patch, "%c%s\n", line.Kind, line.Text)
			if line.Open {
				patch.WriteString("\\ No newline at end of file\n")
			}
		}
	}
	file, diff := filepath.Join(git.Dir, "f"), filepath.Join(git.Dir, "p")
	for name, text := range map[string]string{file: old, diff: patch.String()} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git.Git("apply", "--whitespace=nowarn", "p")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestApplyHunks(t *testing.T) {
	lines := make([]string, 40)
	for i := range lines {
		lines[i] = fmt.Sprint(i)
	}
	old := strings.Join(lines, "\n") + "\n"
	lines[2], lines[20], lines[38] = "two", "twenty", "thirty-eight"
	b := newBox(t, map[string]string{"f": old, "g": "g\n", "from": old})
	b.write(b.work.Dir, "f", strings.Join(lines, "\n")+"\n")
	b.write(b.work.Dir, "g", "other\n")
	b.work.Git("mv", "from", "to")
	b.write(b.work.Dir, "to", strings.Join(lines, "\n")+"\n")
	s := b.open()

	done := b.mustApply(Options{Pick: pick(t, s, "f", []int{1})})
	want := strings.Replace(old, "\n20\n", "\ntwenty\n", 1)
	if got := b.user.Git("show", "main:f") + "\n"; got != want || done.Files != 1 {
		t.Errorf("one hunk of f: %d files, %q", done.Files, got)
	}
	if got := b.user.Git("show", "main:g"); got != "g" {
		t.Errorf("g was not chosen, and is %q", got)
	}

	// A rename, with one hunk of it.
	s = b.open()
	b.mustApply(Options{Pick: pick(t, s, "to", []int{0})})
	if got := b.user.Git("show", "main:to") + "\n"; got != strings.Replace(old, "\n2\n", "\ntwo\n", 1) {
		t.Errorf("one hunk of a renamed file: %q", got)
	}
	if got := b.user.Git("ls-tree", "--name-only", "main", "from"); got != "" {
		t.Error("the old name of a renamed file is still there")
	}

	// The rest.
	s = b.open()
	all := s.All()
	b.mustApply(Options{Pick: &all})
	if got := b.user.Git("show", "main:f") + "\n"; got != strings.Join(lines, "\n")+"\n" {
		t.Errorf("all of f: %q", got)
	}
}

// What changes between the look and the key is refused: nothing else than what was shown comes.
func TestApplyChangedSinceShown(t *testing.T) {
	b := newBox(t, map[string]string{"f": "1\n", "g": "1\n"})
	b.write(b.work.Dir, "f", "2\n")
	b.write(b.work.Dir, "g", "2\n")
	s := b.open()
	f, g, all := pick(t, s, "f", nil), pick(t, s, "g", []int{0}), s.All()
	b.write(b.work.Dir, "f", "evil\n")
	b.refuses(Options{Pick: f}, "f was changed since it was shown")
	b.refuses(Options{Pick: &all}, "changed since")
	b.mustApply(Options{Pick: g})
	if got := b.user.Git("show", "main:g"); got != "2" {
		t.Errorf("g is %q", got)
	}
}

func TestSeenFiles(t *testing.T) {
	b := newBox(t, map[string]string{"f": "1\n", "g": "1\n"})
	b.write(b.work.Dir, "f", "2\n")
	b.write(b.work.Dir, "g", "2\n")
	s := b.open()
	if err := s.MarkFiles(t.Context(), s.Changes[:1]); err != nil {
		t.Fatal(err)
	}
	if s = b.open(); !s.SeenFile("f") || s.SeenFile("g") {
		t.Error("f was shown, and g was not")
	}
	b.write(b.work.Dir, "f", "3\n")
	if s = b.open(); s.SeenFile("f") {
		t.Error("what f has now was not shown")
	}
}

func FuzzHunks(f *testing.F) {
	f.Add("@@ -1,2 +1 @@\n\x01a\n\x02b\n\\ No newline\n", "a\nb", false)
	f.Add("diff --git a/f b/f\n@@ -1 +1 @@\n\x02a\n\x03diff --git a/g b/g\n", "a", true)
	f.Fuzz(func(t *testing.T, text, old string, cut bool) {
		split := &splitDiff{at: -1, files: make([]fileText, 2)}
		split.files[0].room, split.files[1].room = &split.room[0], &split.room[1]
		for _, part := range []string{text, old, text} {
			if _, err := split.Write([]byte(part)); err != nil {
				t.Fatal(err)
			}
		}
		if kept := split.files[0].text.String(); strings.Contains(kept, "\ndiff --git ") {
			t.Errorf("two diffs are one: %q", kept)
		}
		d, err := parseDiff(text, cut)
		if err != nil {
			return
		}
		if same, err := patched(old, d.Hunks, nil); err == nil && string(same) != old {
			t.Errorf("no hunk makes %q of %q", same, old)
		}
	})
}
