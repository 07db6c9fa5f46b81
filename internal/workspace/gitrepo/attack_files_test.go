package gitrepo

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// otherRepositoryAttacks would have the host read objects of another repository of the user's.
func otherRepositoryAttacks() []attack {
	return []attack{
		{"a linked object", func(t *testing.T, b *box) string {
			id := b.planted()
			path := b.path("objects", id[:2], id[2:])
			moved := filepath.Join(t.TempDir(), "object")
			must(t, os.Rename(path, moved))
			must(t, os.Symlink(moved, path))
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"objects in a linked folder", func(t *testing.T, b *box) string {
			other := newHost(t)
			id := other.Commit("secret", "of another repository\n")
			must(t, os.RemoveAll(b.path("objects")))
			must(t, os.Symlink(filepath.Join(other.Dir, ".git/objects"), b.path("objects")))
			b.setBranch(id)
			return id
		}},
		{"packs of another repository, by a link", func(t *testing.T, b *box) string {
			other := newHost(t)
			id := other.Commit("secret", "of another repository\n")
			other.Git("gc", "-q")
			must(t, os.RemoveAll(b.path("objects/pack")))
			must(t, os.Symlink(filepath.Join(other.Dir, ".git/objects/pack"), b.path("objects/pack")))
			b.setBranch(id)
			return id
		}},
		{"alternates that name another repository", func(t *testing.T, b *box) string {
			other := newHost(t)
			id := other.Commit("secret", "of another repository\n")
			write(t, b.path("objects/info/alternates"), filepath.Join(other.Dir, ".git/objects")+"\n")
			b.setBranch(id)
			return id
		}},
		{"a tree of ours with an object of another repository", func(t *testing.T, b *box) string {
			other := newHost(t)
			other.Commit("secret", "of another repository\n")
			id := other.Git("rev-parse", "HEAD:secret")
			write(t, b.path("objects/info/alternates"), filepath.Join(other.Dir, ".git/objects")+"\n")
			b.commitTree(b.loose("tree", entry("100644", "x", id)))
			return id
		}},
		{"a commondir that names another repository", func(t *testing.T, b *box) string {
			other := newHost(t)
			id := other.Commit("secret", "of another repository\n")
			write(t, b.path("commondir"), filepath.Join(other.Dir, ".git")+"\n")
			b.setBranch(id)
			return id
		}},
	}
}

// refAttacks are refs that lead elsewhere, or nowhere.
func refAttacks() []attack {
	return []attack{
		{"a branch that is a link", func(t *testing.T, b *box) string {
			secret := filepath.Join(t.TempDir(), "secret")
			write(t, secret, b.inside.Commit("c", "three\n")+"\n")
			must(t, os.Remove(b.path("refs/heads", b.work.Branch)))
			must(t, os.Symlink(secret, b.path("refs/heads", b.work.Branch)))
			return ""
		}},
		{"refs that are a link", func(t *testing.T, b *box) string {
			b.inside.Commit("c", "three\n")
			moved := filepath.Join(t.TempDir(), "refs")
			must(t, os.Rename(b.path("refs"), moved))
			must(t, os.Symlink(moved, b.path("refs")))
			return ""
		}},
		{"a branch that names the host's", func(_ *testing.T, b *box) string {
			b.setBranch("ref: ../../../../etc/passwd\n")
			return ""
		}},
		{"branches that name each other", func(t *testing.T, b *box) string {
			b.setBranch("ref: refs/heads/other\n")
			write(t, b.path("refs/heads/other"), "ref: refs/heads/"+b.work.Branch+"\n")
			return ""
		}},
		{"a packed-refs with a line too much", func(t *testing.T, b *box) string {
			_ = os.Remove(b.path("refs/heads", b.work.Branch))
			write(t, b.path("packed-refs"), b.work.Base+" refs/heads/"+b.work.Branch+"\n"+b.work.Base+" refs/heads/../../../evil\n")
			return ""
		}},
	}
}

// waitAttacks are files that nobody ever writes to, or that have no end.
func waitAttacks() []attack {
	return []attack{
		{"a branch that is a FIFO", func(t *testing.T, b *box) string {
			_ = os.Remove(b.path("refs/heads", b.work.Branch))
			must(t, os.MkdirAll(b.path("refs/heads"), 0o755))
			must(t, unix.Mkfifo(b.path("refs/heads", b.work.Branch), 0o600))
			return ""
		}},
		{"a packed-refs that is a FIFO", func(t *testing.T, b *box) string {
			_ = os.Remove(b.path("refs/heads", b.work.Branch))
			must(t, os.Remove(b.path("packed-refs")))
			must(t, unix.Mkfifo(b.path("packed-refs"), 0o600))
			return ""
		}},
		{"an object that is a FIFO", func(t *testing.T, b *box) string {
			id := strings.Repeat("f0", 20)
			must(t, os.MkdirAll(b.path("objects", id[:2]), 0o755))
			must(t, unix.Mkfifo(b.path("objects", id[:2], id[2:]), 0o600))
			b.setBranch(id)
			return ""
		}},
		{"a pack that is a FIFO", func(t *testing.T, b *box) string {
			must(t, os.MkdirAll(b.path("objects/pack"), 0o755))
			must(t, unix.Mkfifo(b.path("objects/pack/pack-"+strings.Repeat("0", 40)+".pack"), 0o600))
			b.setBranch(strings.Repeat("f1", 20))
			return ""
		}},
		{"a branch file of 10 GB", func(t *testing.T, b *box) string {
			b.setBranch("")
			must(t, os.Truncate(b.path("refs/heads", b.work.Branch), 10<<30))
			return ""
		}},
		{"a packed-refs of 10 GB", func(t *testing.T, b *box) string {
			_ = os.Remove(b.path("refs/heads", b.work.Branch))
			must(t, os.Truncate(b.path("packed-refs"), 10<<30))
			return ""
		}},
		{"an object of 10 GB", func(t *testing.T, b *box) string {
			id := strings.Repeat("f2", 20)
			write(t, b.path("objects", id[:2], id[2:]), "")
			must(t, os.Truncate(b.path("objects", id[:2], id[2:]), 10<<30))
			b.setBranch(id)
			return ""
		}},
		{"a pack of nothing but holes", func(t *testing.T, b *box) string {
			pack := b.path("objects/pack/pack-" + strings.Repeat("1", 40) + ".pack")
			write(t, pack, "PACK\x00\x00\x00\x02\xff\xff\xff\xff")
			must(t, os.Truncate(pack, 10<<30))
			b.setBranch(strings.Repeat("f3", 20))
			return ""
		}},
		{"a size that fills the memory", func(_ *testing.T, b *box) string {
			id := strings.Repeat("78", 20)
			b.looseAs(id, "tree 9223372036854775807\x00")
			return b.commitTree(id)
		}},
	}
}
