package gitrepo

import (
	"context"
	"os"
	"path/filepath"
)

// Checkout is a working folder of a repository.
type Checkout struct {
	GitDir string // of this working folder
	Folder string // "" where the repository doesn't say: a bare one, or a submodule
	Branch string // without refs/heads/; "" is detached
}

// Checkouts are the working folders that the repository knows of, the main one first. A folder may be gone.
func (r *Repository) Checkouts(ctx context.Context) []Checkout {
	first := Checkout{GitDir: r.Common, Branch: r.branchOf(ctx, r.Common)}
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
			all = append(all, Checkout{GitDir: dir, Folder: filepath.Dir(pointer), Branch: r.branchOf(ctx, dir)})
		}
	}
	return all
}

func (r *Repository) branchOf(ctx context.Context, gitDir string) string {
	checkout := *r
	checkout.GitDir, checkout.Head = gitDir, ""
	if err := checkout.readHead(ctx); err != nil {
		return ""
	}
	return checkout.Head
}

// IndexOf is the host's index of a working folder of this repository; "" if it has none.
func (r *Repository) IndexOf(ctx context.Context, folder string) string {
	for _, checkout := range r.Checkouts(ctx) {
		if checkout.Folder != "" && checkout.Folder == folder {
			return filepath.Join(checkout.GitDir, "index")
		}
	}
	return ""
}
