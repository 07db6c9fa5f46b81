package review

import (
	"fmt"
	"strings"
	"testing"

	"forage/internal/workspace/autorun"
)

// TestShowingForgetsNothing has somebody apply while another still reads a diff.
func TestShowingForgetsNothing(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a.txt": "one\n"})
	b.write(b.work.Dir, "a.txt", "two\n")
	reader := b.open()
	b.mustApply(Options{})
	if err := reader.MarkShown(t.Context()); err != nil {
		t.Fatal(err)
	}
	remembered, err := readState(b.subject.folder())
	if err != nil {
		t.Fatal(err)
	}
	if len(remembered.Applied) != 1 || remembered.Shown != reader.Tree {
		t.Errorf("remembered is %+v, want what was applied, and %s shown", remembered, reader.Tree)
	}
}

func TestAnyNumberOfFindingsIsShown(t *testing.T) {
	t.Parallel()
	b := newBox(t, map[string]string{"a.txt": "one\n"})
	deep := strings.Repeat("folder/", 500)
	var found []autorun.Finding
	for n := range 1000 {
		found = append(found, autorun.Finding{Path: fmt.Sprintf("%s%d/.envrc", deep, n), Kind: autorun.KindShell})
	}
	s := b.open()
	if err := s.AddFindings(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if len(s.Findings) != len(found) {
		t.Errorf("%d of %d are shown", len(s.Findings), len(found))
	}
}
