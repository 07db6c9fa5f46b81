package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"strings"
)

// loose writes a loose object into the private metadata by hand, whatever it says, and returns its
// name.
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

// planted is a blob.
func (b *box) planted() string {
	b.t.Helper()
	return b.loose("blob", "planted\n")
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

// commitOfBillions moves the branch inside to a commit that has, in few objects, ten to the tenth
// files.
func (b *box) commitOfBillions() string {
	b.t.Helper()
	id, mode := b.planted(), "100644"
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
