package workspacetest

import "path/filepath"

// jjOdds are jj repositories.
func jjOdds() []Odd {
	return []Odd{
		{Name: "jj colocated", JJ: true, Make: func(u *User, dir string) string {
			return u.JJ(filepath.Join(dir, "repo"), "--colocate")
		}},
		{Name: "jj without a commit", JJ: true, Make: func(u *User, dir string) string {
			u.JJ(filepath.Join(dir, "made"))
			u.Must(dir, "jj", "git", "init", "--no-colocate", "repo")
			return filepath.Join(dir, "repo")
		}},
		{Name: "jj second workspace", JJ: true, Make: func(u *User, dir string) string {
			u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
			u.Must(filepath.Join(dir, "repo"), "jj", "workspace", "add", filepath.Join(dir, "second"))
			return filepath.Join(dir, "second")
		}},
		{Name: "jj sparse", JJ: true, Make: func(u *User, dir string) string {
			repo := u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
			u.Must(repo, "jj", "sparse", "set", "--clear", "--add", "docs")
			return repo
		}},
		{Name: "jj with conflicts", JJ: true, Make: jjConflict},
	}
}

func jjConflict(u *User, dir string) string {
	repo := u.JJ(filepath.Join(dir, "repo"), "--no-colocate")
	u.Write(repo, "file.txt", "left\n")
	u.Must(repo, "jj", "commit", "-m", "left")
	u.Must(repo, "jj", "new", "main", "-m", "right")
	u.Write(repo, "file.txt", "right\n")
	u.Must(repo, "jj", "new", "description(exact:\"left\n\")", "description(exact:\"right\n\")")
	return repo
}
