package workspacetest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
	"forage/internal/workspace"
)

// Subject is a provider to be tested.
type Subject struct {
	New func(workspace.Places) workspace.Provider
	// Source makes what the user names, below an empty folder.
	Source func(u *User, dir string) string
	JJ     bool // the work inside is done with jj
	// Refuses says of an odd repository that it may be refused; all others have to work.
	Refuses func(name string) bool
	// UsualOnly leaves out the odd repositories, where another run of the same provider has them.
	UsualOnly bool
	// Few leaves out, without a soak, what is another provider's code too.
	Few bool
	// Turn says which of the odd repositories are tried without a soak: each of them is tried with one of the providers.
	Turn int
}

// Run is the suite.
func Run(t *testing.T, s Subject) {
	for name, test := range map[string]func(*Made){
		"plans without a trace":    plans,
		"works as usual":           works,
		"brings commits":           bringsCommits,
		"follows other branches":   followsBranches,
		"knows what is unsaved":    knowsUnsaved,
		"hides nothing":            hidesNothing,
		"refuses to lose":          refusesToLose,
		"keeps what is forced":     keepsForced,
		"removes what is merged":   removesMerged,
		"keeps the branch":         keepsBranch,
		"removes what is unused":   removesUnused,
		"leaves a moved branch":    leavesMovedBranch,
		"misses its source":        missesSource,
		"misses its folder":        missesFolder,
		"survives a crash":         survivesCrash,
		"undoes what is cancelled": undoesCancelled,
		"forgets the unbegun":      forgetsWhatHadNotBegun,
		"goes on removing":         goesOnRemoving,
		"shares":                   shares,
	} {
		if s.Few && !testdir.Soak() && !slices.Contains(few, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := NewUser(t)
			test(s.prepare(u, s.Source(u, Dir(t)), "box"))
		})
	}
	if !s.UsualOnly && (!s.JJ || testdir.Soak()) { // jj takes its time
		t.Run("odd repositories", func(t *testing.T) { s.odd(t) })
	}
}

var few = []string{"works as usual", "brings commits", "knows what is unsaved", "keeps what is forced", "removes what is unused", "misses its source"}

// prepare is a provider that has made nothing yet.
func (s Subject) prepare(u *User, source, sandbox string) *Made {
	u.Helper()
	base := Dir(u)
	places := workspace.PlacesIn(filepath.Join(base, "state"), filepath.Join(base, "run"))
	return s.prepareIn(u, places, source, sandbox)
}

func (s Subject) prepareIn(u *User, places workspace.Places, source, sandbox string) *Made {
	m := &Made{User: u, Provider: s.New(places), Places: places, Source: source, jj: s.JJ}
	m.Request = workspace.Request{
		Sandbox: sandbox, Name: workspace.Main, Path: source, Target: "/workspace", Home: u.Home,
		Ours: []string{filepath.Dir(places.Trees)}, Places: places,
	}
	return m
}

// plan plans, which has to succeed.
func (m *Made) plan() *Made {
	m.Helper()
	w, err := m.Plan(m.Context(), m.Request)
	if err != nil {
		m.Fatalf("planning: %v", err)
	}
	m.Work = w
	return m
}

// create plans and creates, which has to succeed.
func (m *Made) create() *Made {
	m.Helper()
	m.plan()
	if err := m.Create(m.Context(), m.Work); err != nil {
		m.Fatalf("creating: %v", err)
	}
	return m
}

func (m *Made) inside() *Inside { m.Helper(); return NewInside(m.User, m.Work) }

// update updates, which has to succeed.
func (m *Made) update() workspace.Update {
	m.Helper()
	u, err := m.Update(m.background(), m.Work)
	if err != nil {
		m.Fatalf("updating: %v", err)
	}
	return u
}

func (m *Made) status() workspace.Status {
	m.Helper()
	status, err := m.Status(m.background(), m.Work)
	if err != nil {
		m.Fatalf("asking for the status: %v", err)
	}
	return status
}

// remove removes, which has to succeed.
func (m *Made) remove(how workspace.Removal) []workspace.Recovery {
	m.Helper()
	kept, err := m.Remove(m.background(), m.Work, how)
	if err != nil {
		m.Fatalf("removing: %v", err)
	}
	return kept
}

// refused checks an error that says no.
func (m *Made) refused(err error, what string) {
	m.Helper()
	if !errors.Is(err, forage.ErrRefused) {
		m.Errorf("%s: got %v, want a refusal", what, err)
	}
}

// direct says whether work is done in the user's own folder.
func (m *Made) direct() bool { return m.Work.Mode == forage.WorkspaceDirect }

// jjAlone says whether git knows nothing of the repository. The work is then at a ref that jj doesn't look at.
func (m *Made) jjAlone() bool { return m.Work.Repository.Kind == forage.RepositoryJJ }

// branch is where the work is in the store, or "".
func (m *Made) branch() string {
	m.Helper()
	ref := "refs/heads/" + m.Work.Branch
	if m.jjAlone() {
		ref = "refs/forage/tip/" + m.Work.Branch
	}
	out, err := m.Try(m.Work.Repository.Store, "git", "--git-dir=.", "rev-parse", "--verify", "-q", ref)
	if err != nil {
		return ""
	}
	return out
}

// show is a file of a commit in the store.
func (m *Made) show(commit, file string) string {
	m.Helper()
	return m.Git(m.Work.Repository.Store, "--git-dir=.", "cat-file", "blob", commit+":"+file)
}

// nothingLeft checks that the places hold nothing of this sandbox any more.
func (m *Made) nothingLeft() {
	m.Helper()
	for _, dir := range []string{m.Places.Trees, m.Places.Repositories, m.Places.Scratch} {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err == nil && path != dir && path != filepath.Join(m.Places.Repositories, m.Request.Sandbox) && !strings.HasPrefix(path, filepath.Join(m.Places.Repositories, ".recovery")) {
				m.Errorf("%s is left", path)
				if d.IsDir() {
					return fs.SkipDir
				}
			}
			return nil
		})
		if err != nil {
			m.Error(err)
		}
	}
}

// sourceState is all of the user's repository that must not change: everything but Forage's own branches, with the
// objects that they need, and its worktree.
func (m *Made) sourceState() string {
	m.Helper()
	if !filepath.IsAbs(m.Source) {
		return ""
	}
	var state strings.Builder
	for _, args := range [][]string{{"for-each-ref"}, {"status", "--porcelain", "--ignored"}, {"symbolic-ref", "-q", "HEAD"}, {"config", "--local", "--list"}} {
		out, _ := m.Try(m.Source, append([]string{"git", "--no-optional-locks"}, args...)...) // a bare one has no status: no matter
		for line := range strings.Lines(out + "\n") {
			if line != "\n" && !strings.Contains(line, "refs/heads/"+workspace.BranchPrefix) && !strings.Contains(line, "refs/forage/") && !strings.Contains(line, "refs/jj/") {
				state.WriteString(line)
			}
		}
	}
	files, err := os.ReadDir(m.Source)
	if err != nil {
		m.Fatal(err)
	}
	for _, file := range files {
		if name := file.Name(); name != "worktrees" && name != "logs" { // of a bare one
			state.WriteString(name + "\n")
		}
	}
	return state.String()
}

// unchanged checks that the user's repository is as it was, and whole.
func (m *Made) unchanged(before string) {
	m.Helper()
	if now := m.sourceState(); now != before {
		m.Errorf("the user's repository was\n%s\nand is\n%s", before, now)
	}
	if out, err := m.Try(m.Source, "git", "fsck", "--full"); err != nil && !strings.Contains(out, "not a git repository") {
		m.Errorf("git fsck: %v\n%s", err, out)
	}
}

// cancelled is a context that has ended.
func cancelled(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx
}
