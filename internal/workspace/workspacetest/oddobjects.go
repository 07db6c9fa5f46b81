package workspacetest

import "path/filepath"

// objects are repositories that keep their objects in another way, or lack some.
func objects() []Odd {
	return []Odd{
		{Name: "sha256", Make: func(u *User, dir string) string {
			return u.Repository(filepath.Join(dir, "repo"), "--object-format=sha256")
		}},
		{Name: "shallow", Make: shallow},
		{Name: "partial clone", Make: partial},
		{Name: "alternates of its own", Make: alternates},
		{Name: "alternates in a chain", Make: alternatesChain},
		{Name: "objects in packs with all extras", Make: usual(func(u *User, repo string) {
			u.Git(repo, "repack", "-q", "-a", "-d", "--write-midx", "--write-bitmap-index")
			u.Git(repo, "commit-graph", "write", "--reachable")
			u.Git(repo, "pack-refs", "--all")
		})},
		{Name: "replacements and grafts", Make: usual(func(u *User, repo string) {
			u.Git(repo, "replace", "HEAD", "v1")
			u.Write(repo, ".git/info/grafts", u.Git(repo, "rev-parse", "v1")+"\n")
		})},
	}
}

func shallow(u *User, dir string) string {
	u.Repository(filepath.Join(dir, "full"))
	u.Git(dir, "clone", "-q", "--depth", "1", "file://"+filepath.Join(dir, "full"), "repo")
	return filepath.Join(dir, "repo")
}

func partial(u *User, dir string) string {
	full := u.Repository(filepath.Join(dir, "full"))
	u.Git(full, "config", "uploadpack.allowFilter", "true")
	u.Git(dir, "clone", "-q", "--filter=blob:none", "file://"+full, "repo")
	return filepath.Join(dir, "repo")
}

func alternates(u *User, dir string) string {
	u.Repository(filepath.Join(dir, "full"))
	u.Git(dir, "clone", "-q", "--shared", "full", "repo")
	u.Commit(filepath.Join(dir, "repo"), "own.txt", "own\n")
	return filepath.Join(dir, "repo")
}

func alternatesChain(u *User, dir string) string {
	repo := alternates(u, dir)
	u.Git(dir, "clone", "-q", "--shared", repo, "second")
	u.Commit(filepath.Join(dir, "second"), "second.txt", "second\n")
	return filepath.Join(dir, "second")
}
