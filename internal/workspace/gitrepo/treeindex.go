package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
)

// Checkout is a working folder of a repository.
type Checkout struct {
	GitDir string // of this working folder
	Folder string // "" where the repository doesn't say: a bare one, or a submodule
	Branch string // without refs/heads/; "" is detached
}

// Checkouts are the working folders that the repository knows of, the main one first. A folder may be gone.
func (r *Repository) Checkouts() []Checkout {
	first := Checkout{GitDir: r.Common, Branch: branchOf(r.Common)}
	if filepath.Base(r.Common) == ".git" {
		first.Folder = filepath.Dir(r.Common)
	}
	if r.flag("core.bare") {
		first = Checkout{GitDir: r.Common}
	}
	all := []Checkout{first}
	entries, err := os.ReadDir(filepath.Join(r.Common, "worktrees"))
	if err != nil {
		return all
	}
	for _, entry := range entries {
		dir := filepath.Join(r.Common, "worktrees", entry.Name())
		if pointer, err := readPointer(filepath.Join(dir, "gitdir"), ""); err == nil {
			all = append(all, Checkout{GitDir: dir, Folder: filepath.Dir(pointer), Branch: branchOf(dir)})
		}
	}
	return all
}

func branchOf(gitDir string) string {
	text, err := readSmall(filepath.Join(gitDir, "HEAD"))
	if err != nil {
		return ""
	}
	ref, _ := strings.CutPrefix(strings.TrimSpace(string(text)), "ref: ")
	branch, ok := strings.CutPrefix(strings.TrimSpace(ref), "refs/heads/")
	if !ok {
		return ""
	}
	return branch
}

// IndexOf is the host's index of a working folder of this repository; "" if it has none.
func (r *Repository) IndexOf(folder string) string {
	for _, checkout := range r.Checkouts() {
		if checkout.Folder != "" && checkout.Folder == folder {
			return filepath.Join(checkout.GitDir, "index")
		}
	}
	return ""
}
