package jjrepo

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/google/renameio/v2"

	"forage"
)

// state is what the last import left: a file of ours beside the private folders, which is not shown inside.
type state struct {
	Tip        string   `json:"tip,omitempty"`        // the commit that was brought
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
