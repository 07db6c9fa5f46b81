package gitrepo

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// packBytes makes a pack by gitformat-pack(5).
type packBytes struct {
	bytes.Buffer
	objects uint32
}

func (p *packBytes) add(t *testing.T, kind byte, size int, before, body []byte) {
	t.Helper()
	b := kind<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		p.WriteByte(b | 0x80)
		b = byte(size & 0x7f)
	}
	p.WriteByte(b)
	p.Write(before)
	z := zlib.NewWriter(p)
	_, err := z.Write(body)
	must(t, err)
	must(t, z.Close())
	p.objects++
}

func (p *packBytes) whole() []byte {
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), p.objects)
	all := append(head, p.Bytes()...)
	sum := sha1.Sum(all)
	return append(all, sum[:]...)
}

// varint is a size as deltas have it.
func varint(n int) (b []byte) {
	for ; n >= 0x80; n >>= 7 {
		b = append(b, byte(n)|0x80)
	}
	return append(b, byte(n))
}

// TestAPackThatAsksForMemory: a few thousand bytes of deltas stand for objects of gigabytes.
func TestAPackThatAsksForMemory(t *testing.T) {
	const piece, pieces = 0xffffff, 200
	var p packBytes
	p.add(t, 3, piece, nil, make([]byte, piece))
	delta := append(varint(piece), varint(piece*pieces)...)
	for range pieces {
		delta = append(delta, 0xf0, 0xff, 0xff, 0xff) // copy piece bytes from the beginning
	}
	back := p.Len() // an offset back, by gitformat-pack(5)
	offset := []byte{byte(back & 0x7f)}
	for back >>= 7; back > 0; back >>= 7 {
		back--
		offset = append([]byte{byte(back&0x7f) | 0x80}, offset...)
	}
	p.add(t, 6, len(delta), offset, delta)

	b := newBox(t, newHost(t), "box")
	write(t, b.path("objects/pack/pack-"+strings.Repeat("3", 40)+".pack"), string(p.whole()))
	b.setBranch(strings.Repeat("ab", 20))
	_, err := Import(t.Context(), b.work, b.scratch)
	if err == nil || !strings.Contains(err.Error(), "attempting to allocate") {
		t.Errorf("got %v, want git's own limit", err)
	}
	b.clean()
}

// TestImportWhileEverythingIsExchanged: folders turn into links to another repository of the user's, and back, while they
// are read. Its objects don't come along.
func TestImportWhileEverythingIsExchanged(t *testing.T) {
	b := newBox(t, newHost(t), "box")
	other := newHost(t)
	secret := other.Commit("secret", "of another repository\n")
	otherGit := filepath.Join(other.Dir, ".git")
	links := t.TempDir()
	for name, target := range map[string]string{"objects": "objects", "refs": "refs"} {
		must(t, os.Symlink(filepath.Join(otherGit, target), filepath.Join(links, name)))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, name := range []string{"objects", "refs"} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, b.path(name), unix.AT_FDCWD, filepath.Join(links, name), unix.RENAME_EXCHANGE)
				}
			}
		})
	}
	// Inside, the branch is at the secret, whose objects are behind the link.
	write(t, filepath.Join(otherGit, "refs/heads", b.work.Branch), secret+"\n")
	for range 15 {
		_, _ = Import(t.Context(), b.work, b.scratch)
		_, _ = Unsaved(t.Context(), b.work, b.scratch)
	}
	close(done)
	wg.Wait()
	if b.has(secret) || b.branch() != b.work.Base {
		t.Errorf("objects of another repository came along, and the branch is at %s", b.branch())
	}
	b.sound()
}
