package review

import (
	"fmt"
	"strings"
	"testing"

	"forage/internal/workspace/hazard"
)

// TestShowingForgetsNothing has somebody apply while another still reads a diff.
func TestShowingForgetsNothing(t *testing.T) {
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

func TestAnyNumberOfHazardsIsShown(t *testing.T) {
	b := newBox(t, map[string]string{"a.txt": "one\n"})
	deep := strings.Repeat("folder/", 500)
	var found []hazard.Finding
	for n := range 1000 {
		found = append(found, hazard.Finding{Path: fmt.Sprintf("%s%d/.envrc", deep, n), Kind: hazard.KindShell})
	}
	s := b.open()
	if err := s.AddHazards(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if len(s.Hazards) != len(found) {
		t.Errorf("%d of %d are shown", len(s.Hazards), len(found))
	}
}
