package gitproto

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// TestBomb sends a pack that unfolds to more than is sensible.
func TestBomb(t *testing.T) {
	t.Parallel()
	s := newScanner(newTap(bytes.NewReader(makePack(object{kind: kindBlob, data: make([]byte, 1<<20)}))), sha1Format, false)
	s.unfolded = freeUnfolding // as if a thousand of these had come
	var err error
	for done := false; !done && err == nil; {
		done, err = s.step()
	}
	if err == nil || !strings.Contains(err.Error(), "unfolds to far more") {
		t.Errorf("got %v", err)
	}
}

// TestMemory passes 256 MiB, and then many commits, and looks at what is allocated.
func TestMemory(t *testing.T) {
	const size = 256 << 20
	blob := io.MultiReader(
		bytes.NewReader(lines(zeros+" "+ones+" refs/heads/agent/x"+caps)),
		bytes.NewReader([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01")),
		bytes.NewReader(entryHead(kindBlob, size)),
		bytes.NewReader([]byte{0x78, 0x01}),
		&storedBlocks{left: size / 0x8000},
	)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	guard, err := Guard(blob, rule)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, guard)
	runtime.ReadMemStats(&after)
	if n < size {
		t.Errorf("%d bytes passed, then %v", n, err)
	}
	checkRefused(t, err, "ends early") // there is no checksum at the end of it
	if got := after.TotalAlloc - before.TotalAlloc; got > 4<<20 {
		t.Errorf("%d bytes were allocated for %d", got, size)
	}
}

// storedBlocks are deflate's blocks of 32 KiB that are not compressed, without a last one.
type storedBlocks struct {
	left  int
	block bytes.Reader
	bytes []byte
}

func (s *storedBlocks) Read(p []byte) (int, error) {
	if s.block.Len() == 0 {
		if s.left == 0 {
			return 0, io.EOF
		}
		s.left--
		if s.bytes == nil {
			s.bytes = append([]byte{0, 0x00, 0x80, 0xff, 0x7f}, make([]byte, 0x8000)...)
		}
		s.block.Reset(s.bytes)
	}
	return s.block.Read(p)
}

// TestManyCommits pushes more commits than are kept.
func TestManyCommits(t *testing.T) {
	var objects []object
	parent := ones
	for range 100_000 {
		o := commitObject("", parent)
		objects, parent = append(objects, o), o.id()
	}
	pack := makePack(objects...)
	_, err := through(bytes.NewReader(append(lines(ones+" "+parent+" refs/heads/agent/x"+caps), pack...)))
	checkRefused(t, err, "more commits than can be judged at once")

	// A new branch needs none of them.
	if _, err := through(bytes.NewReader(append(lines(zeros+" "+parent+" refs/heads/agent/x"+caps), pack...))); err != nil {
		t.Error(err)
	}
	if kept := cost(t, pack); kept > maxCommits {
		t.Errorf("%d bytes are kept", kept)
	}
}

// cost is how much the commits of a pack that has too many take up, in bytes.
func cost(t *testing.T, pack []byte) int64 {
	t.Helper()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := newScanner(newTap(bytes.NewReader(pack)), sha1Format, true)
	var err error
	for err == nil {
		_, err = s.step()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if len(s.commits.byID) < 1000 {
		t.Fatalf("%d commits were kept: %v", len(s.commits.byID), err)
	}
	runtime.KeepAlive(s)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc)
}

// TestManyWays judges refs whose ways through the commits are long, all of them.
func TestManyWays(t *testing.T) {
	c := newCommits(sha1Format)
	parent := ones
	for i := range 20_000 {
		o := commitObject(fmt.Sprint(i), parent)
		if err := c.add(int64(i), o.data); err != nil {
			t.Fatal(err)
		}
		parent = o.id()
	}
	r := &request{format: sha1Format}
	from, _ := parseID(strings.Repeat("3", 40))
	to, _ := parseID(parent)
	for i := range 2000 {
		r.commands = append(r.commands, command{old: from, new: to, ref: fmt.Sprintf("refs/heads/agent/%d", i)})
	}
	err := r.judgeCommits(c)
	checkRefused(t, err, "not a fast-forward")
	var refusal *Refusal
	errors.As(err, &refusal)
	if got := refusal.refs[1999].why; got != "too many commits to be judged at once" {
		t.Errorf("the last ref is refused because %q", got)
	}
}
