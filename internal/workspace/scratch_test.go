package workspace_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace"
)

func TestAbandonedScratch(t *testing.T) {
	scratch := filepath.Join(t.TempDir(), "scratch")
	if abandoned, err := workspace.AbandonedScratch(scratch); err != nil || abandoned != nil {
		t.Errorf("where there is no folder: %v, %v", abandoned, err)
	}
	mine, err := workspace.MakeScratch(scratch, "git")
	if err != nil {
		t.Fatal(err)
	}
	const ended = 1<<22 + 1 // above every process id: one that was in use can be given to the next
	var want []string
	for name, test := range map[string]struct {
		old, abandoned bool
	}{
		fmt.Sprintf("git-%d-1", ended):    {abandoned: true},
		fmt.Sprintf("jj-new-%d-1", ended): {abandoned: true},
		"other-x-1":                       {}, "other": {}, "old": {old: true, abandoned: true},
	} {
		path := filepath.Join(scratch, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		if test.old {
			then := time.Now().Add(-48 * time.Hour)
			if err := os.Chtimes(path, then, then); err != nil {
				t.Fatal(err)
			}
		}
		if test.abandoned {
			want = append(want, path)
		}
	}
	slices.Sort(want)
	got, err := workspace.AbandonedScratch(scratch)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got), with %s in use:\n%s", mine, diff)
	}
}
