package work

import (
	"strings"
	"testing"

	"forage"
	"forage/internal/workspace"
)

// TestRecoveryNoteIsACommand: what a note says to type works from every folder, as it is.
func TestRecoveryNoteIsACommand(t *testing.T) {
	const folder = "/home/me/my app"
	git := &forage.Repository{Kind: forage.RepositoryGit, Dir: "/state/fix/main", Store: folder + "/.git", Nested: []forage.Nested{
		{Path: "lib", Repository: forage.Repository{Store: folder + "/.git/modules/lib"}},
	}}
	jj := &forage.Repository{Kind: forage.RepositoryJJ, Dir: "/state/fix/main", Store: folder + "/.jj/repo/store/git", Mounts: []forage.Mount{{Source: "/state/fix/main/jj"}}}
	both := &forage.Repository{Kind: forage.RepositoryGit, Dir: "/state/fix/main", Store: folder + "/.git", Mounts: jj.Mounts}
	for _, c := range []struct {
		name       string
		mode       forage.WorkspaceMode
		repository *forage.Repository
		store, ref string
		want       string
	}{
		{"own folder", forage.WorkspaceDirect, git, git.Store, "refs/heads/forage-fix", "`git -C '/home/me/my app' reset forage-fix` moves the branch there to the commits"},
		{"its submodule", forage.WorkspaceDirect, git, git.Nested[0].Repository.Store, "refs/heads/forage-fix", "`git -C '/home/me/my app/lib' reset forage-fix`"},
		{"own folder, jj", forage.WorkspaceDirect, jj, jj.Store, "refs/heads/forage-fix", "`jj -R '/home/me/my app' rebase -r @ -d forage-fix`"},
		{"own folder, jj and git", forage.WorkspaceDirect, both, both.Store, "refs/heads/forage-fix", "`jj -R '/home/me/my app' rebase -r @ -d forage-fix`"},
		{"a jj workspace", forage.WorkspaceJJ, jj, jj.Store, "refs/forage/recovery/fix/1/work", "branch NAME REF, and then jj git import"},
		{"a worktree", forage.WorkspaceWorktree, git, git.Store, "refs/heads/forage-fix", "`git merge forage-fix`"},
		{"recovery", forage.WorkspaceWorktree, git, git.Store, "refs/forage/recovery/fix/1/work", "\nto bring it back: git --git-dir='/home/me/my app/.git' branch NAME REF"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := forage.Workspace{Name: "main", Mode: c.mode, Path: folder, Repository: c.repository}
			note := strings.Join(recoveryNotes([]workspace.Recovery{{Sandbox: "fix", Store: c.store, Ref: c.ref}}, w), "\n")
			if !strings.Contains(note, c.want) {
				t.Errorf("%s\nhas no %s", note, c.want)
			}
		})
	}
}
