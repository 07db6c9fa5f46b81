package gitrepo

import (
	"os"
	"strings"
	"testing"
)

// attack is one way to put into the private metadata what must not come to the host.
type attack struct {
	name string
	do   func(t *testing.T, b *box) string // returns an object that must not come to the host's repository, or ""
}

// treeAttacks are trees that git must not check out.
func treeAttacks() []attack {
	return []attack{
		{"a tree with .git", func(_ *testing.T, b *box) string {
			hooks := b.loose("tree", entry("100755", "post-checkout", b.planted()))
			return b.commitTree(b.loose("tree", entry("40000", ".git", hooks)))
		}},
		{"a tree with .GIT", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", ".GIT", b.planted())))
		}},
		{"a tree with git~1", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "git~1", b.planted())))
		}},
		{"a tree with ..", func(_ *testing.T, b *box) string {
			inner := b.loose("tree", entry("100644", "x", b.planted()))
			return b.commitTree(b.loose("tree", entry("40000", "..", inner)))
		}},
		{"a tree with a path for a name", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "../../evil", b.planted())))
		}},
		{"a tree with an absolute path", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "/etc/evil", b.planted())))
		}},
		{"a tree with one name twice", func(_ *testing.T, b *box) string {
			link := b.loose("blob", "/etc")
			return b.commitTree(b.loose("tree", entry("120000", "a", link)+entry("40000", "a", b.loose("tree", entry("100644", "x", b.planted())))))
		}},
		{"a .gitmodules with an option for a URL", func(_ *testing.T, b *box) string {
			modules := b.loose("blob", "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch /tmp/owned\n")
			return b.commitTree(b.loose("tree", entry("100644", ".gitmodules", modules)))
		}},
		{"a .gitmodules that is a link", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("120000", ".gitmodules", b.loose("blob", "/etc/passwd"))))
		}},
	}
}

// objectAttacks are objects that are missing, or not what they say they are.
func objectAttacks() []attack {
	return []attack{
		{"a missing blob", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "x", strings.Repeat("12", 20))))
		}},
		{"a missing parent", func(_ *testing.T, b *box) string {
			tree := b.loose("tree", entry("100644", "x", b.planted()))
			id := b.loose("commit", "tree "+tree+"\nparent "+strings.Repeat("34", 20)+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
			b.setBranch(id)
			return id
		}},
		{"a commit without a tree", func(_ *testing.T, b *box) string {
			id := b.loose("commit", "author A <a@b> 1 +0000\n\nx\n")
			b.setBranch(id)
			return id
		}},
		{"a branch at a blob", func(_ *testing.T, b *box) string {
			id := b.planted()
			b.setBranch(id)
			return id
		}},
		{"a bad digest", func(_ *testing.T, b *box) string {
			id := strings.Repeat("56", 20)
			b.looseAs(id, "blob 5\x00evil\n")
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"a wrong size", func(_ *testing.T, b *box) string {
			id := b.planted()
			b.looseAs(id, "blob 7\x00planted\n")
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"bytes behind an object", func(t *testing.T, b *box) string {
			id := b.planted()
			path := b.path("objects", id[:2], id[2:])
			text, err := os.ReadFile(path)
			must(t, err)
			must(t, os.Remove(path))
			must(t, os.WriteFile(path, append(text, "more"...), 0o644))
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"no zlib at all", func(_ *testing.T, b *box) string {
			id := strings.Repeat("9a", 20)
			write(b.t, b.path("objects", id[:2], id[2:]), "plain")
			return b.commitTree(id)
		}},
		{"a graft", func(t *testing.T, b *box) string {
			id := b.loose("commit", "tree "+b.host.Git("rev-parse", "HEAD^{tree}")+"\nparent "+strings.Repeat("bc", 20)+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
			write(t, b.path("info/grafts"), id+"\n")
			b.setBranch(id)
			return id
		}},
		{"a shallow file", func(t *testing.T, b *box) string {
			id := b.loose("commit", "tree "+b.host.Git("rev-parse", "HEAD^{tree}")+"\nparent "+strings.Repeat("bc", 20)+"\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\nx\n")
			write(t, b.path("shallow"), id+"\n")
			b.setBranch(id)
			return id
		}},
		{"a replace ref", func(t *testing.T, b *box) string {
			bad := b.commitTree(strings.Repeat("de", 20))
			write(t, b.path("refs/replace", bad), b.work.Base+"\n")
			return bad
		}},
	}
}

// bombs are a few objects that make billions of files or folders.
func bombs() []attack {
	return []attack{
		{"a tree of billions of files", func(_ *testing.T, b *box) string { return b.commitOfBillions() }},
		{"a tree of billions of files in an earlier commit", func(_ *testing.T, b *box) string {
			bomb := b.commitOfBillions()
			return b.commitOn(b.host.Git("rev-parse", "HEAD^{tree}"), bomb)
		}},
		{"a tree of billions of files in a commit that is merged", func(_ *testing.T, b *box) string {
			bomb := b.commitOfBillions()
			return b.commitOn(b.host.Git("rev-parse", "HEAD^{tree}"), b.work.Base, bomb)
		}},
		{"a tree of billions of empty folders", func(_ *testing.T, b *box) string {
			id := b.loose("tree", "")
			for range 10 {
				id = b.tenTimes("40000", id)
			}
			return b.commitTree(id)
		}},
		{"a tree with the host's own many times", func(_ *testing.T, b *box) string {
			id := b.host.Git("rev-parse", "HEAD^{tree}")
			for range 7 {
				id = b.tenTimes("040000", id)
			}
			return b.commitTree(id)
		}},
		{"folders without end", func(_ *testing.T, b *box) string {
			id, mode := b.planted(), "100644"
			for range 50 { // of 200 bytes: no system has such a path
				id, mode = b.loose("tree", entry(mode, strings.Repeat("d", 200), id)), "40000"
			}
			return b.commitTree(id)
		}},
	}
}
