package gitrepo

import (
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testgit"
)

// loose writes a loose object into the private metadata by hand, whatever it says, and returns its name.
func (b *box) loose(kind, body string) string {
	b.t.Helper()
	content := fmt.Sprintf("%s %d\x00%s", kind, len(body), body)
	sum := sha1.Sum([]byte(content))
	id := hex.EncodeToString(sum[:])
	b.looseAs(id, content)
	return id
}

func (b *box) looseAs(id, content string) {
	b.t.Helper()
	var compressed bytes.Buffer
	z := zlib.NewWriter(&compressed)
	_, err := z.Write([]byte(content))
	must(b.t, err)
	must(b.t, z.Close())
	must(b.t, os.MkdirAll(b.path("objects", id[:2]), 0o755))
	_ = os.Remove(b.path("objects", id[:2], id[2:]))
	must(b.t, os.WriteFile(b.path("objects", id[:2], id[2:]), compressed.Bytes(), 0o444))
}

// entry is an entry of a tree.
func entry(mode, name, id string) string {
	raw, err := hex.DecodeString(id)
	if err != nil {
		panic(err)
	}
	return mode + " " + name + "\x00" + string(raw)
}

// commitTree writes a commit of a tree by hand and moves the branch inside to it.
func (b *box) commitTree(tree string) string {
	b.t.Helper()
	return b.commitOn(tree, b.work.Base)
}

// commitOn is commitTree on other parents.
func (b *box) commitOn(tree string, parents ...string) string {
	b.t.Helper()
	text := "tree " + tree + "\n"
	for _, parent := range parents {
		text += "parent " + parent + "\n"
	}
	id := b.loose("commit", text+"author A <a@example.com> 1700000000 +0000\ncommitter A <a@example.com> 1700000000 +0000\n\nevil\n")
	b.setBranch(id + "\n")
	return id
}

// tenTimes writes a tree with one object ten times.
func (b *box) tenTimes(mode, id string) string {
	b.t.Helper()
	var tree strings.Builder
	for i := range 10 {
		tree.WriteString(entry(mode, fmt.Sprint("f", i), id))
	}
	return b.loose("tree", tree.String())
}

// commitOfBillions moves the branch inside to a commit that has, in few objects, ten to the tenth files.
func (b *box) commitOfBillions() string {
	b.t.Helper()
	id, mode := b.loose("blob", "planted\n"), "100644"
	for range 10 {
		id, mode = b.tenTimes(mode, id), "40000"
	}
	return b.commitTree(id)
}

// setBranch writes the file of the branch inside.
func (b *box) setBranch(text string) {
	b.t.Helper()
	ref := b.path("refs/heads", b.work.Branch)
	_ = os.RemoveAll(ref)
	write(b.t, ref, text)
}

// TestAttacksOnImport: whatever is in the private metadata, the host's branch stays where it was, its repository sound,
// and nothing of what was planted is in it.
func TestAttacksOnImport(t *testing.T) {
	blob := func(b *box) string { return b.loose("blob", "planted\n") }
	host := newHost(t)
	// Each returns an object that must not come to the host's repository, or "".
	for _, attack := range []struct {
		name string
		do   func(t *testing.T, b *box) string
	}{
		{"a tree with .git", func(_ *testing.T, b *box) string {
			hooks := b.loose("tree", entry("100755", "post-checkout", blob(b)))
			return b.commitTree(b.loose("tree", entry("40000", ".git", hooks)))
		}},
		{"a tree with .GIT", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", ".GIT", blob(b))))
		}},
		{"a tree with git~1", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "git~1", blob(b))))
		}},
		{"a tree with ..", func(_ *testing.T, b *box) string {
			inner := b.loose("tree", entry("100644", "x", blob(b)))
			return b.commitTree(b.loose("tree", entry("40000", "..", inner)))
		}},
		{"a tree with a path for a name", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "../../evil", blob(b))))
		}},
		{"a tree with an absolute path", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "/etc/evil", blob(b))))
		}},
		{"a tree with one name twice", func(_ *testing.T, b *box) string {
			link := b.loose("blob", "/etc")
			return b.commitTree(b.loose("tree", entry("120000", "a", link)+entry("40000", "a", b.loose("tree", entry("100644", "x", blob(b))))))
		}},
		{"a .gitmodules with an option for a URL", func(_ *testing.T, b *box) string {
			modules := b.loose("blob", "[submodule \"x\"]\n\tpath = x\n\turl = --upload-pack=touch /tmp/owned\n")
			return b.commitTree(b.loose("tree", entry("100644", ".gitmodules", modules)))
		}},
		{"a .gitmodules that is a link", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("120000", ".gitmodules", b.loose("blob", "/etc/passwd"))))
		}},
		{"a missing blob", func(_ *testing.T, b *box) string {
			return b.commitTree(b.loose("tree", entry("100644", "x", strings.Repeat("12", 20))))
		}},
		{"a missing parent", func(_ *testing.T, b *box) string {
			tree := b.loose("tree", entry("100644", "x", blob(b)))
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
			id := blob(b)
			b.setBranch(id)
			return id
		}},
		{"a bad digest", func(_ *testing.T, b *box) string {
			id := strings.Repeat("56", 20)
			b.looseAs(id, "blob 5\x00evil\n")
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"a wrong size", func(_ *testing.T, b *box) string {
			id := blob(b)
			b.looseAs(id, "blob 7\x00planted\n")
			return b.commitTree(b.loose("tree", entry("100644", "x", id)))
		}},
		{"a size that fills the memory", func(_ *testing.T, b *box) string {
			id := strings.Repeat("78", 20)
			b.looseAs(id, "tree 9223372036854775807\x00")
			return b.commitTree(id)
		}},
		{"bytes behind an object", func(t *testing.T, b *box) string {
			id := blob(b)
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
		{"a linked object", func(t *testing.T, b *box) string {
			id := blob(b)
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
		{"a branch that names the host's", func(_ *testing.T, b *box) string {
			b.setBranch("ref: ../../../../etc/passwd\n")
			return ""
		}},
		{"branches that name each other", func(t *testing.T, b *box) string {
			b.setBranch("ref: refs/heads/other\n")
			write(t, b.path("refs/heads/other"), "ref: refs/heads/"+b.work.Branch+"\n")
			return ""
		}},
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
			id, mode := blob(b), "100644"
			for range 50 { // of 200 bytes: no system has such a path
				id, mode = b.loose("tree", entry(mode, strings.Repeat("d", 200), id)), "40000"
			}
			return b.commitTree(id)
		}},
		{"a packed-refs with a line too much", func(t *testing.T, b *box) string {
			_ = os.Remove(b.path("refs/heads", b.work.Branch))
			write(t, b.path("packed-refs"), b.work.Base+" refs/heads/"+b.work.Branch+"\n"+b.work.Base+" refs/heads/../../../evil\n")
			return ""
		}},
	} {
		t.Run(attack.name, func(t *testing.T) {
			b := newBox(t, host, strings.Map(plain, attack.name))
			planted := attack.do(t, b)
			began := time.Now()
			update, err := Import(t.Context(), b.work, b.scratch)
			t.Logf("%v after %v", err, time.Since(began))
			if update.After != update.Before || b.branch() != b.work.Base {
				t.Errorf("the branch moved: %+v", update)
			}
			if planted != "" && b.has(planted) {
				t.Errorf("%s is in the host's repository", planted)
			}
			// What can't be imported is not called saved either.
			if status, err := Unsaved(t.Context(), b.work, b.scratch); err == nil && !status.Unsaved() {
				t.Errorf("nothing unsaved: %+v", status)
			}
			b.clean()
		})
	}
	if out, messages, err := host.Run(nil, "fsck", "--full", "--strict", "--no-dangling"); err != nil {
		t.Errorf("the host's repository: %v\n%s%s", err, out, messages)
	}
}

// plain makes a name of a text.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// TestImportIgnoresWhatIsNotTheBranch: what is odd in the metadata does not keep good commits from being imported.
func TestImportIgnoresWhatIsNotTheBranch(t *testing.T) {
	for name, plant := range map[string]func(b *box){
		"evil names":    func(b *box) { write(t, b.path("refs/heads/--upload-pack=x"), "nothing") },
		"a lock":        func(b *box) { write(t, b.path("refs/heads", b.work.Branch+".lock"), "") },
		"configuration": func(b *box) { write(t, b.path("config"), "[core]\n\tfsmonitor = touch "+b.path("ran")+"\n") },
		"a commit-graph, a multi-pack-index and a promisor": func(b *box) {
			for _, file := range []string{"objects/info/commit-graph", "objects/pack/multi-pack-index", "objects/pack/pack-x.promisor", "objects/pack/pack-x.keep"} {
				write(b.t, b.path(file), "garbage")
			}
		},
		"a replaced object":  func(b *box) { write(b.t, b.path("refs/replace", b.work.Base), strings.Repeat("12", 20)+"\n") },
		"a FIFO in refs":     func(b *box) { must(b.t, unix.Mkfifo(b.path("refs/heads/pipe"), 0o600)) },
		"hooks":              func(b *box) { write(b.t, b.path("hooks/reference-transaction"), "#!/bin/sh\ntouch "+b.path("ran")) },
		"http-alternates":    func(b *box) { write(b.t, b.path("objects/info/http-alternates"), "http://127.0.0.1:1/\n") },
		"a damaged old pack": func(b *box) { write(b.t, b.path("objects/pack/pack-"+strings.Repeat("2", 40)+".pack"), "PACK") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, newHost(t), "box")
			tip := b.inside.Commit("c", "three\n")
			plant(b)
			if update := b.importIt(); update.After != tip || b.branch() != tip {
				t.Errorf("got %+v, want %s", update, tip)
			}
			if _, err := os.Stat(b.path("ran")); err == nil {
				t.Error("something that came from inside ran on the host")
			}
			b.sound()
		})
	}
}

func TestImportFromAShallowRepository(t *testing.T) {
	origin := newHost(t)
	host := testgit.Clone(t, "file://"+origin.Dir, "--depth=1")
	b := newBox(t, host, "box")
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
	if status := b.unsaved(); status.CommitsCount != 1 {
		t.Errorf("got %+v, want one commit", status)
	}
	b.sound()
}

// TestLooseObjectsAreLeftWhenTimeIsUp: who stops a sandbox doesn't wait until all is read that was made inside.
func TestLooseObjectsAreLeftWhenTimeIsUp(t *testing.T) {
	b := newBox(t, newHost(t), "box")
	id := b.inside.Commit("x", "y\n")
	from, err := openMetadata(b.path())
	must(t, err)
	defer from.close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := looseCopy{from: from, objects: t.TempDir()}
	if _, err := c.walk(ctx, []string{id}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
