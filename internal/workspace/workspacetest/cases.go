package workspacetest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/workspace"
)

func plans(m *Made) {
	before := m.sourceState()
	m.plan()
	m.unchanged(before)
	if _, err := os.Stat(filepath.Dir(m.Places.Trees)); !errors.Is(err, fs.ErrNotExist) {
		m.Errorf("planning made the state folder (%v)", err)
	}
	if m.Work.Mode == "" || m.Work.Path == "" || m.Work.Target != "/workspace" || m.Work.Name != workspace.Main {
		m.Errorf("the plan is not whole: %+v", m.Work)
	}
	if again, err := m.Plan(m.Context(), m.Request); err != nil || again.Path != m.Work.Path || again.Base != m.Work.Base {
		m.Errorf("a second plan is another: %+v, %v", again, err)
	}
}

// works does what developers do every day.
func works(m *Made) {
	i := m.create().inside()
	if m.jj {
		i.Run("jj st && jj log && jj new -m two && echo three >>file.txt && jj describe -m three && jj new && jj undo && jj op log && jj diff -r @-")
		return
	}
	if out := i.Run("git status --porcelain"); out != "" {
		m.Errorf("git status of a new workspace shows\n%s", out)
	}
	i.Run(`git log --oneline v1 && git fsck --full
echo three >>file.txt && git stash && git stash pop && git commit -qam three
git checkout -q -b topic && echo four >four && git add four && git commit -q -m four
git checkout -q - && echo five >five && git add five && git commit -q -m five
git rebase -q topic && git tag -a -m tag v2 && git commit -q --amend -m 'five again'
git merge -q topic && git reflog && git gc -q && git fsck --full && git bisect start && git bisect reset && git worktree list`)
	if out := i.Run("git status --porcelain"); out != "" {
		m.Errorf("git status after all has been committed shows\n%s", out)
	}
}

func bringsCommits(m *Made) {
	m.create()
	before := m.sourceState()
	i := m.inside()
	i.Commit("new.txt", "from inside\n")
	first := m.update()
	if first.After == "" || first.After == first.Before || first.After != m.branch() {
		m.Fatalf("after a commit the update is %+v, and %s is at %q", first, m.Work.Branch, m.branch())
	}
	if got := m.show(first.After, "new.txt"); got != "from inside" {
		m.Errorf("the branch's file holds %q", got)
	}
	if again := m.update(); again.Before != again.After || again.After != first.After {
		m.Errorf("an update with nothing to do is %+v", again)
	}
	i.Commit("new.txt", "again\n")
	if second := m.update(); second.Before != first.After || m.show(second.After, "new.txt") != "again" {
		m.Errorf("the second update is %+v", second)
	}
	if m.direct() {
		return // its files are the user's
	}
	m.unchanged(before)
}

// followsBranches: what an agent does on a branch of its own comes to the host as well.
func followsBranches(m *Made) {
	i := m.create().inside()
	if m.jj {
		return // it has no branch that is checked out
	}
	i.Run("git switch -q -c fix/it")
	i.Commit("new.txt", "from inside\n")
	there := m.update()
	if there.After == "" || there.After != m.branch() || m.show(there.After, "new.txt") != "from inside" {
		m.Fatalf("after a commit on another branch the update is %+v, and %s is at %q", there, m.Work.Branch, m.branch())
	}
	if status := m.status(); status.CommitsCount != 1 || len(status.Elsewhere) != 0 || status.UncommittedCount != 0 {
		m.Errorf("unsaved are %+v", status)
	}
	i.Run("git switch -q -")
	if back := m.update(); back.Before != there.After || back.After == there.After {
		m.Errorf("back on the sandbox's branch the update is %+v", back)
	}
	if status := m.status(); status.CommitsCount != 0 || strings.Join(status.Elsewhere, " ") != "refs/heads/fix/it" || status.Merge != "fix/it" {
		m.Errorf("unsaved are %+v", status)
	}
	_, err := m.Remove(m.Context(), m.Work, workspace.RemoveSaved)
	m.refused(err, "removing a workspace with a commit on another branch")
	i.Run("git merge -q " + m.status().Merge)
	if merged := m.update(); merged.After != there.After {
		m.Errorf("merged, the update is %+v", merged)
	}
}

func knowsUnsaved(m *Made) {
	i := m.create().inside()
	if status := m.status(); status.Unsaved() {
		m.Errorf("of a new workspace this is unsaved: %+v", status)
	}
	i.Run("echo more >>file.txt && echo new >untracked && echo nothing >some.log")
	status := m.status()
	switch got := strings.Join(status.Uncommitted, " "); {
	case m.direct() && got != "":
		m.Errorf("the user's own files are unsaved: %s", got)
	case !m.direct() && (got != "file.txt untracked" || status.UncommittedCount != 2):
		m.Errorf("uncommitted are %q (%d)", got, status.UncommittedCount)
	}
	if m.jj {
		i.Commit("file.txt", "more\n")
		m.update()
		if status := m.status(); status.CommitsCount != 1 || len(status.Elsewhere) > 0 {
			m.Errorf("after a commit this is unsaved: %+v", status)
		}
		return
	}
	i.Run("git stash -q -u && git tag elsewhere \"$(git commit-tree -p HEAD -m elsewhere HEAD:)\"")
	i.Commit("file.txt", "more\n")
	m.update()
	status = m.status()
	if len(status.Commits) != 1 || status.CommitsCount != 1 || status.Commits[0].Subject != "agent: file.txt" {
		m.Errorf("unsaved commits are %+v", status)
	}
	elsewhere := strings.Join(status.Elsewhere, " ")
	if !strings.Contains(elsewhere, "stash") || !strings.Contains(elsewhere, "refs/tags/elsewhere") {
		m.Errorf("elsewhere are %q, want a stash and a tag", elsewhere)
	}
}

// hidesNothing: a rule of the agent's that ignores its files does not make them worthless.
func hidesNothing(m *Made) {
	i := m.create().inside()
	i.Run("echo x >secret.new && mkdir -p deep && echo x >deep/secret.new && echo '*' >deep/.gitignore && echo nothing >some.log && echo '*.new' >>.gitignore")
	if m.direct() {
		return // the files are the user's
	}
	if m.jj {
		i.Run("jj commit -m rules")
	} else {
		i.Run("git add .gitignore && git commit -q -m rules")
	}
	m.update()
	if got := strings.Join(m.status().Uncommitted, " "); got != "deep/ secret.new" {
		m.Errorf("uncommitted are %q", got)
	}
	_, err := m.Remove(m.Context(), m.Work, workspace.RemoveSaved)
	m.refused(err, "removing a workspace with files that only a new rule ignores")
	for _, r := range m.remove(workspace.RemoveForced) {
		if r.Folder != "" && m.exists(filepath.Join(r.Folder, "files/secret.new")) && m.exists(filepath.Join(r.Folder, "files/deep/secret.new")) {
			return
		}
	}
	m.Error("the files are not kept")
}

func refusesToLose(m *Made) {
	i := m.create().inside()
	i.Commit("new.txt", "from inside\n")
	m.update()
	_, err := m.Remove(m.Context(), m.Work, workspace.RemoveSaved)
	m.refused(err, "removing a workspace with a commit")
	if got := i.Run("cat new.txt && git log -1 --format=%s 2>/dev/null || jj log"); !strings.Contains(got, "from inside") {
		m.Errorf("after a refusal there is inside:\n%s", got)
	}
	if m.branch() == "" {
		m.Error("after a refusal the branch is gone")
	}
	if m.direct() {
		return
	}
	m.mergeOnHost()
	i.Run("echo more >>new.txt")
	_, err = m.Remove(m.Context(), m.Work, workspace.RemoveSaved)
	m.refused(err, "removing a workspace with a change")
}

func keepsForced(m *Made) {
	i := m.create().inside()
	i.Commit("new.txt", "from inside\n")
	i.Run("echo uncommitted >uncommitted")
	before := m.sourceState()
	kept := m.remove(workspace.RemoveForced)
	m.recovered(kept, "new.txt", "from inside")
	if !m.direct() {
		m.recovered(kept, "uncommitted", "uncommitted")
		m.nothingLeft()
	}
	m.unchanged(before)
	if again := m.remove(workspace.RemoveForced); len(again) != 0 {
		m.Errorf("removing it again keeps %+v", again)
	}
	m.remove(workspace.RemoveSaved)
}

// recovered looks for a file in one of the places where removed work is kept.
func (m *Made) recovered(kept []workspace.Recovery, file, want string) {
	m.Helper()
	for _, r := range kept {
		if r.Ref != "" {
			out, err := m.Try(r.Store, "git", "--git-dir=.", "cat-file", "blob", r.Ref+":"+file)
			if err == nil && out == want {
				return
			}
		}
		if r.Folder != "" { // a snapshot
			return
		}
	}
	m.Errorf("%s is in none of the places where work was kept: %+v", file, kept)
}

// mergeOnHost is the user's taking over all commits.
func (m *Made) mergeOnHost() {
	m.Helper()
	m.update()
	commit := m.branch()
	m.Git(m.Work.Repository.Store, "--git-dir=.", "update-ref", "refs/heads/merged", commit)
	if jj := filepath.Join(m.Source, ".jj"); m.exists(jj) {
		m.Must(m.Source, "jj", "git", "import")
	}
}

func (m *Made) exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func removesMerged(m *Made) {
	i := m.create().inside()
	i.Commit("new.txt", "from inside\n")
	m.mergeOnHost()
	if kept := m.remove(workspace.RemoveSaved); len(kept) != 0 {
		m.Errorf("of merged work is kept %+v", kept)
	}
	m.nothingLeft()
	if m.exists(m.Work.Repository.Store) && m.branch() != "" {
		m.Error("the branch of merged work is left")
	}
	if out, err := m.Try(m.Source, "git", "worktree", "list"); err == nil && strings.Contains(out, m.Places.Trees) {
		m.Errorf("git worktree list shows\n%s", out)
	}
	m.remove(workspace.RemoveSaved)
}

func keepsBranch(m *Made) {
	i := m.create().inside()
	i.Commit("new.txt", "from inside\n")
	i.Run("echo uncommitted >uncommitted")
	m.update()
	commit := m.branch()
	kept := m.remove(workspace.RemoveButBranch)
	if m.exists(m.Work.Repository.Store) && m.branch() != commit && !m.jjAlone() {
		m.Errorf("the branch is at %q, want %s", m.branch(), commit)
	}
	m.recovered(kept, "new.txt", "from inside")
	if !m.direct() {
		m.recovered(kept, "uncommitted", "uncommitted")
	}
}

func removesUnused(m *Made) {
	before := m.sourceState()
	m.create().remove(workspace.RemoveUnused)
	m.nothingLeft()
	m.unchanged(before)
	if m.exists(m.Work.Repository.Store) && m.branch() != "" {
		m.Error("the branch is left")
	}
	m.create() // the name is free again
}

func leavesMovedBranch(m *Made) {
	i := m.create().inside()
	if m.jjAlone() {
		return // the user has no branch of it before it is applied
	}
	i.Commit("new.txt", "from inside\n")
	m.update()
	store := m.Work.Repository.Store
	moved := m.Git(store, "--git-dir=.", "commit-tree", "-m", "the user's", "-p", m.branch(), m.branch()+"^{tree}")
	m.Git(store, "--git-dir=.", "update-ref", "refs/heads/"+m.Work.Branch, moved)
	i.Commit("new.txt", "again\n")
	_, err := m.Update(m.Context(), m.Work)
	if got := m.branch(); got != moved {
		m.Errorf("the branch that the user moved to %s is at %s (%v)", moved, got, err)
	}
	if status, statusErr := m.Status(m.Context(), m.Work); statusErr == nil && !status.Unsaved() {
		m.Errorf("a commit that could not be brought is not unsaved (%v)", err)
	}
	kept := m.remove(workspace.RemoveForced)
	m.recovered(kept, "new.txt", "again")
	if m.Work.Mode != forage.WorkspaceClone && m.branch() == "" {
		m.Error("a branch with the user's own commit is gone")
	}
}

// missesSource takes the user's repository away for a while.
func missesSource(m *Made) {
	i := m.create().inside()
	i.Commit("new.txt", "from inside\n")
	before := m.sourceState()
	away := m.Source + ".away"
	if err := os.Rename(m.Source, away); err != nil {
		m.Fatal(err)
	}
	_, err := m.Update(m.Context(), m.Work)
	status, statusErr := m.Status(m.Context(), m.Work)
	if err == nil && statusErr == nil && !status.Unsaved() {
		m.Errorf("without its repository nothing is unsaved: %+v", status)
	}
	if _, err := m.Remove(m.Context(), m.Work, workspace.RemoveSaved); err == nil {
		m.Error("without its repository the workspace is removed, and the commit with it")
	}
	if err := os.Rename(away, m.Source); err != nil {
		m.Fatal(err)
	}
	m.unchanged(before)
	if u := m.update(); m.show(u.After, "new.txt") != "from inside" {
		m.Errorf("when the repository is back, the update is %+v", u)
	}
}

// missesFolder is a user who removes the worktree by hand.
func missesFolder(m *Made) {
	i := m.create().inside()
	if m.direct() {
		return
	}
	i.Commit("new.txt", "from inside\n")
	if err := os.RemoveAll(m.Work.Path); err != nil {
		m.Fatal(err)
	}
	if _, err := m.Remove(m.Context(), m.Work, workspace.RemoveSaved); err == nil {
		m.Error("the commit went with the folder")
	}
	kept := m.remove(workspace.RemoveForced)
	m.recovered(kept, "new.txt", "from inside")
	m.nothingLeft()
}
