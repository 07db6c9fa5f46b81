package jjrepo

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/google/renameio/v2"

	"forage"
)

// state is what the last import left: a file of ours beside the private folders, which is not shown inside.
type state struct {
	Branch     string   `json:"branch,omitempty"`     // where the bookmark was put
	Next       string   `json:"next,omitempty"`       // where it was about to be put: a crash may have come between
	Operations []string `json:"operations,omitempty"` // of the private repository, all of which was brought
}

func stateFile(r forage.Repository) string { return filepath.Join(r.Dir, "imported.json") }

func readState(r forage.Repository) (state, error) {
	var s state
	text, err := readWhole(stateFile(r), maxSmall)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	return s, err
}

func (s state) write(r forage.Repository) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return renameio.WriteFile(stateFile(r), text, 0o600, renameio.WithTempDir(r.Dir))
}

// ours says whether the bookmark is where an import left it.
func (s state) ours(at string) bool { return at == s.Branch || at != "" && at == s.Next }

func (s state) brought(v View) bool { return slices.Equal(s.Operations, v.Operations) }
