package workspace_test

import (
	"fmt"
	"os"
	"os/exec"
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
	child := exec.Command("true")
	if err := child.Run(); err != nil {
		t.Fatal(err)
	}
	var want []string
	for name, test := range map[string]struct {
		old, abandoned bool
	}{
		fmt.Sprintf("git-%d-1", child.Process.Pid):    {abandoned: true},
		fmt.Sprintf("jj-new-%d-1", child.Process.Pid): {abandoned: true},
		"other-x-1": {}, "other": {}, "old": {old: true, abandoned: true},
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
