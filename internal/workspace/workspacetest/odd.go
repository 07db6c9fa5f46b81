package workspacetest

import (
	"os"
	"path/filepath"
	"slices"
)

// Odd is a repository that is not like the usual one.
type Odd struct {
	Name string
	// Make makes it below dir, an empty folder, and returns the path that the user names.
	Make func(u *User, dir string) string
	JJ   bool // a jj repository
	Bare bool // it has no working folder
	// Newer says that it takes NewerGit to make it and to use it. Who has only an older git refuses it.
	Newer bool
}

// Odds are all of them. A provider works with one, or refuses it before it has made anything.
func Odds() []Odd {
	return slices.Concat(layouts(), states(), objects(), contents(), jjOdds())
}

// usual changes the usual repository.
func usual(change func(u *User, repo string)) func(*User, string) string {
	return func(u *User, dir string) string {
		repo := u.Repository(filepath.Join(dir, "repo"))
		change(u, repo)
		return repo
	}
}

func remove(u *User, path string) {
	u.Helper()
	if err := os.Remove(path); err != nil {
		u.Fatal(err)
	}
}

func link(u *User, target, path string) {
	u.Helper()
	if err := os.Symlink(target, path); err != nil {
		u.Fatal(err)
	}
}
