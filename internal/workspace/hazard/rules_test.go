package hazard

import "testing"

// TestNames: names.txt can be read, and has each name once, in lower case.
func TestNames(t *testing.T) {
	table, err := parse(namesText)
	if err != nil {
		t.Fatal(err)
	}
	if len(table.files) < 500 || len(table.folders) < 80 || len(table.patterns) < 50 {
		t.Errorf("%d files, %d folders, %d patterns", len(table.files), len(table.folders), len(table.patterns))
	}
	for _, text := range []string{"nokind: why\n", "shell\n", "shell: why\n    a b a\n", "shell: why\n    A\n"} {
		if _, err := parse(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}
