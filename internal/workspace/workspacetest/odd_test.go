package workspacetest

import (
	"os"
	"testing"
)

// TestOdds makes every odd repository: what the suite is run with is what it says.
func TestOdds(t *testing.T) {
	for _, odd := range Odds() {
		t.Run(odd.Name, func(t *testing.T) {
			t.Parallel()
			u := NewUser(t)
			repo := odd.Make(u, Dir(t))
			if _, err := os.Stat(repo); err != nil {
				t.Fatal(err)
			}
			if odd.JJ {
				u.Must(repo, "jj", "log")
				return
			}
			if !odd.Rare {
				u.Git(repo, "for-each-ref")
				u.Git(repo, "fsck")
			}
		})
	}
}
