package gitrepo

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"forage"
)

// place is where the work inside is: agents switch to branches of their own, so the sandbox's branch alone doesn't say it.
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

// paused are the files by which git knows, while HEAD is detached and moves about, what it returns to: the name of a branch
// and, if there was none, a commit.
var paused = [...]struct{ branch, commit, prefix string }{
	{"rebase-merge/head-name", "rebase-merge/orig-head", ""},
	{"rebase-apply/head-name", "rebase-apply/orig-head", ""},
	{"BISECT_START", "BISECT_START", "refs/heads/"},
}

// checkedOut is the commit that is checked out, and the name of what has it: a branch, in full, or HEAD, where it is detached.
// In the midst of a rebase or a bisection it is what that began with: the commits on the way, of which files are, come and go.
func (m *metadata) checkedOut() (id, name, files string, err error) {
	files, name, err = m.head()
	if err != nil || name != "" {
		return files, name, files, err
	}
	for _, p := range paused {
		text, err := m.read(p.branch, maxInsideRef)
		if err != nil {
			continue
		}
		branch := p.prefix + strings.TrimSpace(string(text))
		if strings.HasPrefix(branch, "refs/heads/") && validRef(branch) {
			if id, err := m.branch(branch); err == nil && id != "" {
				return id, branch, files, nil
			}
		}
		text, err = m.read(p.commit, maxInsideRef)
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
	from, err := openMetadata(filepath.Join(w.Repository.Dir, "git"))
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

// apart says whether what is checked out is known not to go on from the sandbox's branch: it is not imported.
func (state imported) apart(at place) bool {
	return at.head != "" && state.judged(at) && state.Tip != at.head
}

// tip is the commit inside that stands for the work, and the name of what has it. As long as nothing was decided about what is
// checked out, it is the sandbox's branch.
func (state imported) tip(at place) (id, ref string) {
	if at.head != "" && at.head != at.own && state.judged(at) && !state.apart(at) {
		return at.head, at.on
	}
	return at.own, at.ownRef
}

// settled is the commit that the host's branch is to be at, as far as that takes no look at the commits between; else it is "".
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

// merge is the branch, or commit, inside that is to be merged, into what is checked out there, so that commits which are only
// inside come to the host's branch. "": there is none whose name can be shown as a part of a command: it was chosen inside.
func (state imported) merge(at place, lost []string) (branch, ref string) {
	if state.apart(at) && slices.Contains(lost, at.on) {
		lost = []string{at.ownRef}
	}
	for _, ref := range lost {
		name, ok := strings.CutPrefix(ref, "refs/heads/")
		if !ok {
			name, ok = strings.CutPrefix(ref, leftPrefix)
		}
		if ok && ref != at.on && plainName.MatchString(name) {
			return name, ref
		}
	}
	return "", ""
}

// plainName are names of branches in which no shell finds anything.
var plainName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_./-]*$`)

// FilesOf names what is checked out inside, a branch or a commit, if that is not the commit that was imported last: the
// sandbox's branch is not followed there, or a rebase is under way. "" is the usual case.
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
