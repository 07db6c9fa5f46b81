package review

import (
	"context"
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"forage/internal/store"
)

// state is what is remembered of a part from one call to the next.
//
//	{"shown": "TREE", "applied": [{"branch": "main", "work": "COMMIT", "tip": "COMMIT", "after": "COMMIT"}]}
type state struct {
	Shown string   `json:"shown,omitempty"` // what the user saw last: see content
	Files []string `json:"files,omitempty"` // that were shown one by one: see mark
	// Applied is what branches of the user's have got, one mark for each branch, newest first.
	Applied []mark `json:"applied,omitempty"`
}

// bookmark is where the last apply went.
func (s state) bookmark() string {
	if len(s.Applied) == 0 {
		return ""
	}
	return s.Applied[0].Branch
}

// mark says what a branch of the user's has got.
type mark struct {
	Branch string `json:"branch,omitempty"`
	Work   string `json:"work,omitempty"`  // a commit of the files that were brought; our staging has it
	Tip    string `json:"tip,omitempty"`   // of the sandbox then
	After  string `json:"after,omitempty"` // where the branch was then; "": no commit of it has those files
	All    string `json:"all,omitempty"`   // the last tip of which nothing was left out
	Whole  bool   `json:"whole,omitempty"` // nothing was left out this time
}

// maxMarks is how many branches are remembered.
const maxMarks = 4

// remember takes in a mark.
func (s *state) remember(m mark) {
	marks := slices.DeleteFunc(s.Applied, func(old mark) bool { return old.Branch == m.Branch })
	s.Applied = append([]mark{m}, marks[:min(len(marks), maxMarks-1)]...)
}

func stateFile(folder string) string { return filepath.Join(folder, "state.json") }

func readState(folder string) (s state, err error) {
	err = store.ReadJSON(stateFile(folder), &s)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil
	}
	return s, err
}

// update changes what is remembered. Another command may have changed it since it was read: a pager stays open.
func (s Subject) update(ctx context.Context, change func(*state)) error {
	unlock, err := s.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	state, err := readState(s.folder())
	if err != nil {
		return err
	}
	change(&state)
	return store.WriteJSON(stateFile(s.folder()), state)
}

// MarkShown remembers that the user has seen this content: Apply says when it is another.
func (s *Session) MarkShown(ctx context.Context) error {
	return s.subject.update(ctx, func(state *state) { state.Shown = s.content() })
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

// Brings says whether a file is new or changed, and among those that a user chooses.
func (s *Session) Brings(path string, chosen []string) bool {
	return slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Path == path && c.NewMode != 0 }) &&
		(len(chosen) == 0 || slices.ContainsFunc(clean(chosen), func(folder string) bool { return below(path, folder) }))
}

// Attributes are the changed files, of those that a user chooses, that say which filters git runs: gitattributes(5), git-lfs-config(5).
func (s *Session) Attributes(chosen []string) (paths []string) {
	for _, c := range s.Changes {
		if name := filepath.Base(c.Path); (strings.EqualFold(name, ".gitattributes") || strings.EqualFold(name, ".lfsconfig")) && s.Brings(c.Path, chosen) {
			paths = append(paths, c.Path)
		}
	}
	return paths
}
