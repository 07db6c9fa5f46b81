package gitrepo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/renameio/v2"

	"forage"
	"forage/internal/workspace"
)

// place is where the work inside is: agents switch to branches of their own, so the sandbox's
// branch alone doesn't say it.
type place struct {
	own, ownRef string // the sandbox's branch, or what is in its place, and the commit that it is at; "": none
	lacking     bool   // the sandbox's own branch isn't there
	head, on    string // the commit that is checked out, "": none, and the name of what has it
	files       string // the commit that files are of: in the midst of a rebase another than head
}

// nowhere says whether there is no commit at all.
func (at place) nowhere() bool { return at.own == "" && at.head == "" }

// placeInside reads it. A HEAD that can't be read is none: Unsaved says so.
func placeInside(from *metadata, w forage.Workspace, state imported) (at place, err error) {
	at.head, at.on, at.files, err = from.checkedOut()
	if w.Repository.Head == "" { // it began without a branch
		at.own, at.ownRef = at.head, at.on
	} else {
		at.ownRef = branchRef(w.Repository.Head)
		at.own, err = from.branch(at.ownRef)
		if at.lacking = at.own == ""; at.lacking && err == nil && state.Instead != "" {
			at.ownRef = state.Instead
			at.own, err = from.branch(at.ownRef)
		}
	}
	if err != nil {
		return place{}, fmt.Errorf("reading the branch inside: %w", err)
	}
	return at, nil
}

// paused are the files by which git knows, while HEAD is detached and moves about, what it returns
// to: the name of a branch and, if there was none, a commit.
var paused = [...]struct{ branch, commit, prefix string }{
	{"rebase-merge/head-name", "rebase-merge/orig-head", ""},
	{"rebase-apply/head-name", "rebase-apply/orig-head", ""},
	{"BISECT_START", "BISECT_START", "refs/heads/"},
}

// checkedOut is the commit that is checked out, and the name of what has it: a branch, in full, or
// HEAD, where it is detached. In the midst of a rebase or a bisection it is what that began with:
// the commits on the way, of which files are, come and go.
func (m *metadata) checkedOut() (id, name, files string, err error) {
	files, name, err = m.head()
	if err != nil || name != "" {
		return files, name, files, err
	}
	for _, p := range paused {
		text, err := m.read(p.branch, maxRef)
		if err != nil {
			continue
		}
		branch := p.prefix + strings.TrimSpace(string(text))
		if strings.HasPrefix(branch, "refs/heads/") && validRef(branch) {
			if id, err := m.branch(branch); err == nil && id != "" {
				return id, branch, files, nil
			}
		}
		text, err = m.read(p.commit, maxRef)
		if id := strings.TrimSpace(string(text)); err == nil && isHex(id) {
			return id, p.commit, files, nil
		}
	}
	return files, "HEAD", files, nil
}

// peek reads what is known of the last import, and where the work inside is now.
func peek(w forage.Workspace) (imported, place, error) {
	state, err := loadImported(w)
	if err != nil {
		return state, place{}, err
	}
	from, err := openInside(w)
	if errors.Is(err, fs.ErrNotExist) {
		return state, place{}, nil
	}
	if err != nil {
		return state, place{}, err
	}
	defer from.close()
	at, err := placeInside(from, w, state)
	return state, at, err
}

// judged says whether the last import has decided about just this place.
func (state imported) judged(at place) bool { return state.Own == at.own && state.Head == at.head }

// apart says whether what is checked out is known not to go on from the sandbox's branch: it is not
// imported.
func (state imported) apart(at place) bool {
	return at.head != "" && state.judged(at) && state.Tip != at.head
}

// tip is the commit inside that stands for the work, and the name of what has it. As long as
// nothing was decided about what is checked out, it is the sandbox's branch.
func (state imported) tip(at place) (id, ref string) {
	if at.head != "" && at.head != at.own && state.judged(at) && !state.apart(at) {
		return at.head, at.on
	}
	return at.own, at.ownRef
}

// settled is the commit that the host's branch is to be at, as far as that takes no look at the
// commits between; else it is "".
func (state imported) settled(at place) string {
	since := cmp.Or(at.own, state.Tip)
	switch {
	case at.head == "":
		return at.own
	case state.judged(at):
		return state.Tip
	case since == "", since == at.head:
		return at.head
	}
	return ""
}

// wanted says of a ref inside whether its commits are to come to the host's branch.
func (state imported) wanted(at place) func(ref string) bool {
	return func(ref string) bool { return ref == at.ownRef || ref == at.on && !state.apart(at) }
}

// merge is the branch, or commit, inside that is to be merged, into what is checked out there, so
// that commits which are only inside come to the host's branch. "": there is none whose name can be
// shown as a part of a command: it was chosen inside.
func (state imported) merge(at place, lost []string) string {
	if state.apart(at) && slices.Contains(lost, at.on) {
		lost = []string{at.ownRef}
	}
	for _, ref := range lost {
		name, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok {
			name, ok = strings.CutPrefix(ref, leftPrefix)
		}
		if ok && ref != at.on && plainName().MatchString(name) {
			return name
		}
	}
	return ""
}

// plainName are names of branches in which no shell finds anything.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`) })

// FilesOf names what is checked out inside, a branch or a commit, if that is not the commit that
// was imported last: the sandbox's branch is not followed there, or a rebase is under way. "" is
// the usual case.
func FilesOf(w forage.Workspace) (string, error) {
	state, at, err := peek(w)
	switch {
	case err != nil || at.files == "" || !state.judged(at) || state.Tip == at.files:
		return "", err
	case at.files == at.head:
		return at.called(), nil
	}
	return fmt.Sprintf("%.12s", at.files), nil
}

// called is what people call what is checked out.
func (at place) called() string {
	if branch, ok := strings.CutPrefix(at.on, "refs/heads/"); ok {
		return branch
	}
	return fmt.Sprintf("%.12s", at.head)
}

// imported is what is known of the last import of a workspace. It is kept beside the private
// metadata, where the sandbox sees nothing of it.
type imported struct {
	// Tip is the commit inside that was last brought to the host, or the one that the work began
	// at.
	Tip string `json:"tip,omitempty"`
	// Own and Head are where the sandbox's branch inside, and what was checked out there, were when
	// Tip was chosen.
	Own  string `json:"own,omitempty"`
	Head string `json:"head,omitempty"`
	// Instead is the ref inside that is in the place of the sandbox's branch, where there is none:
	// it was given another name, or there was no commit when the sandbox began.
	Instead string `json:"instead,omitempty"`
	// Detached: HEAD was detached at Tip. Left are such commits that were left since: nothing
	// inside need have them any more.
	Detached bool     `json:"detached,omitempty"`
	Left     []string `json:"left,omitempty"`
	// Branch is where we left the branch on the host; "": it wasn't there. If it is elsewhere now,
	// the user moved it.
	Branch string `json:"branch,omitempty"`
	// Next is where the branch is being moved to: after a crash it is at one of the two.
	Next string `json:"next,omitempty"`
	// Index is the commit that the index of the working folder on the host was last brought to.
	Index string `json:"index,omitempty"`
}

// Names of what is kept beside a part's private metadata.
const (
	importedSuffix = ".imported"
	lockSuffix     = ".lock"
	indexSuffix    = ".look" // an index with the times of files
	refsSuffix     = ".refs" // what CreatePrivate copied of the host's refs, as packed-refs
)

func loadImported(w forage.Workspace) (imported, error) {
	text, err := os.ReadFile(w.Repository.Dir + importedSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		first := imported{Tip: w.Base, Own: w.Base, Head: w.Base}
		if w.Mode != forage.WorkspaceDirect { // others begin with a branch of their own
			first.Branch, first.Index = w.Base, w.Base
		}
		return first, nil
	}
	if err != nil {
		return imported{}, err
	}
	var state imported
	if err := json.Unmarshal(text, &state); err != nil {
		return imported{}, fmt.Errorf("reading %s: %w", w.Repository.Dir+importedSuffix, err)
	}
	return state, nil
}

func saveImported(w forage.Workspace, state imported) error {
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	file := w.Repository.Dir + importedSuffix
	return renameio.WriteFile(file, append(text, '\n'), 0o600, renameio.WithTempDir(filepath.Dir(file)))
}

// done says whether there is nothing to do as long as the work inside is at this place.
func (state imported) done(w forage.Workspace, at place) bool {
	return at.nowhere() || state.Next == "" && state.judged(at) && (state.Index == state.Branch || !hasTree(w))
}

// decided notes what the work at a place is brought as.
func (state *imported) decided(at place, tip string) {
	detached := at.on == "HEAD" && tip == at.head
	if state.Detached && !detached && at.head != state.Tip && !slices.Contains(state.Left, state.Tip) {
		state.Left = append(state.Left, state.Tip)
		state.Left = state.Left[max(0, len(state.Left)-maxLeft):]
	}
	state.Detached = detached
	switch {
	case !at.lacking:
		state.Instead = ""
	case at.own == "" && tip == at.head && strings.HasPrefix(at.on, "refs/heads/"):
		state.Instead = at.on
	}
	state.Tip, state.Next, state.Own, state.Head = tip, "", at.own, at.head
}

// hasTree says whether the workspace's folder on the host is a working folder of ours, whose index
// we look after.
func hasTree(w forage.Workspace) bool {
	return w.Mode == forage.WorkspaceWorktree || w.Mode == forage.WorkspaceClone
}

// lockImport keeps other processes of ours from importing the same workspace at the same time: the
// supervisor does, and so does whoever looks.
func lockImport(ctx context.Context, w forage.Workspace) (unlock func(), err error) {
	return workspace.Lock(ctx, w.Repository.Dir+lockSuffix)
}

// copiedRefs are the host's refs as they were when the private metadata was made: one that is still
// the same inside holds no work, even when the user has moved or deleted it on the host since.
func copiedRefs(w forage.Workspace) (map[string]string, error) {
	text, err := os.ReadFile(w.Repository.Dir + refsSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePacked(text)
}
