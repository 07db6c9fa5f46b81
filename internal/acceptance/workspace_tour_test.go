package acceptance

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"forage/internal/workspace/workspacetest"
)

// looking is what a user, a prompt and an editor do in a folder without a second thought; each line
// is for sh.
var looking = []string{
	"git status", "git status --porcelain=v2 --branch --untracked-files=all --ignored", "git diff", "git diff HEAD", "git diff --stat --cached",
	"git log -p --all", "git log --oneline --graph --decorate", "git show", "git branch -avv", "git worktree list", "git stash list", "git describe --all --contains HEAD",
	// what __git_ps1 asks
	"git rev-parse --git-dir --is-inside-git-dir --is-bare-repository --is-inside-work-tree --short HEAD",
	"git diff --no-ext-diff --quiet", "git diff --no-ext-diff --cached --quiet", "git ls-files --others --exclude-standard --directory --no-empty-directory --error-unmatch -- ':/*'",
	"git rev-list --count --left-right HEAD...HEAD", "git config --get-all bash.showDirtyState", "git blame file.txt", "git grep one",
	"git fsck --full", "git submodule status", "git check-attr -a file.txt", "git for-each-ref", "git remote -v",
	"jj --no-pager st", "jj log", "jj diff", "jj op log",
}

// working changes the repository. What is not there to be committed is no failure.
var working = []string{
	"git add -A", "git status", "git diff", "git commit -am 'the user'", "echo more >>file.txt", "git stash", "git stash pop", "git commit -am again",
	"git checkout -q -b users", "git commit --allow-empty -m users", "git checkout -q -", "git merge --no-edit users", "git rebase users",
	"git gc --auto", "git submodule update --init --recursive", "git status", "git clean -n", "git archive HEAD", "git worktree prune",
	"jj st", "jj new", "jj log",
}

// tours are tours of a workspace's folder and of the repository, if these are two.
func (h *host) tours(folder string, commands []string) {
	h.Helper()
	h.tour(folder, commands)
	if folder != h.repo {
		h.tour(h.repo, commands)
	}
}

// tour runs commands of the user's, with the system's git and perhaps the newer one, in a folder.
// Most may fail, in a folder without a repository for example: only what else runs counts.
func (h *host) tour(dir string, commands []string) {
	h.Helper()
	if _, err := os.Stat(dir); err != nil {
		return
	}
	for _, bin := range h.gits() {
		user := h.With(bin)
		for _, command := range commands {
			if strings.HasPrefix(command, "jj ") && bin != "" {
				continue // it has a git of its own
			}
			out, err := user.Try(dir, "sh", "-c", "GIT_EDITOR=true GIT_PAGER=cat timeout 120 "+command+" </dev/null")
			if exit, ok := err.(*exec.ExitError); ok && exit.ExitCode() == 124 {
				h.Errorf("%s in %s doesn't end\n%s", command, dir, out)
			}
			if hits := h.hits(); len(hits) > 0 {
				h.Errorf("%s in %s (git of %q) ran on the host: %s", command, dir, bin, strings.Join(hits, ", "))
			}
		}
	}
}

// gits are the folders in front of PATH: none, and that of a newer git.
func (h *host) gits() []string {
	if bin := workspacetest.NewerGit(); bin != "" {
		return []string{"", bin}
	}
	return []string{""}
}

// cd is what a shell with a hook does that runs .envrc where the user has allowed that, by its path
// as the worst of them do, and what a prompt does.
func (h *host) cd(dir string) {
	h.Helper()
	const hook = `grep -qxF "$PWD/.envrc" "$HOME/allowed" 2>/dev/null && [ -e .envrc ] && . ./.envrc; git rev-parse --abbrev-ref HEAD; git status --porcelain`
	if out, err := h.Try(dir, "sh", "-c", hook); err != nil {
		h.Logf("cd %s: %v\n%s", dir, err, out)
	}
	h.quiet("after cd " + dir)
}

// allow allows the .envrc of a folder.
func (h *host) allow(dir string) {
	h.Helper()
	h.Write(h.Home, "allowed", filepath.Join(dir, ".envrc")+"\n")
}
