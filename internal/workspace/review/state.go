package review

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// state is what is remembered of a part from one call to the next.
//
//	{"shown": "TREE", "applied": [{"branch": "main", "work": "COMMIT", "tip": "COMMIT", "after": "COMMIT"}], "files": {"PATH": "100644 ID 0"}}
type state struct {
	Shown string `json:"shown,omitempty"` // what the user saw last: see content
	// Applied is what branches of the user's have got, newest first.
	Applied []mark `json:"applied,omitempty"`
	// Bookmark is where the last apply went in a jj repository.
	Bookmark string `json:"bookmark,omitempty"`
	// Files are what apply made of files of a folder without a repository: "" is gone.
	Files map[string]string `json:"files,omitempty"`
}

func stateFile(folder string) string { return filepath.Join(folder, "state.json") }

func readState(folder string) (state, error) {
	text, err := os.ReadFile(stateFile(folder))
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	if err != nil {
		return state{}, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return state{}, fmt.Errorf("reading %s: %w", stateFile(folder), err)
	}
	return s, nil
}

// update changes what is remembered, which may be another's by now: a pager stays open, and somebody applies meanwhile.
func (s *Session) update(ctx context.Context, change func(*state)) error {
	unlock, err := s.subject.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if s.state, err = readState(s.subject.folder()); err != nil {
		return err
	}
	change(&s.state)
	text, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return renameio.WriteFile(stateFile(s.subject.folder()), text, 0o600, renameio.WithTempDir(s.subject.folder()))
}

// MarkShown remembers that the user has seen this content: Apply says when it is another.
func (s *Session) MarkShown(ctx context.Context) error {
	return s.update(ctx, func(state *state) { state.Shown = s.content() })
}

// Seen says whether the content is what the user was shown last, and whether anything was shown.
func (s *Session) Seen() (same, any bool) { return s.state.Shown == s.content(), s.state.Shown != "" }

// Hides says whether apply brings something else than the files that are shown: of the user's own folder the commits come.
func (s *Session) Hides() bool { return s.work != s.Tree }

// content is what a review shows, and what it hides.
func (s *Session) content() string {
	if !s.Hides() {
		return s.Tree
	}
	return s.Tree + " " + s.work
}

// Attributes are the changed files, of those that a user chooses, that say which filters git runs: gitattributes(5), git-lfs-config(5).
func (s *Session) Attributes(chosen []string) (paths []string) {
	for _, c := range s.Changes {
		if len(chosen) > 0 && !slices.ContainsFunc(clean(chosen), func(path string) bool { return below(c.Path, path) }) {
			continue
		}
		if name := filepath.Base(c.Path); c.NewMode != 0 && (strings.EqualFold(name, ".gitattributes") || strings.EqualFold(name, ".lfsconfig")) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}
