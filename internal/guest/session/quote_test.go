package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestQuoting(t *testing.T) {
	got := windowArguments([]string{"a", "b;", `c\;`, ";", "d;e", ""})
	want := []string{"/bin/sh", "-c", lingering, "sh", "a", `b\;`, `c\\;`, `\;`, "d;e", ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := escapeFormat("/a#(b)#{c}"); got != "/a##(b)##{c}" {
		t.Error(got)
	}
}
