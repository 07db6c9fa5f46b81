package gitproto

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"forage"
)

const (
	zeros = "0000000000000000000000000000000000000000"
	ones  = "1111111111111111111111111111111111111111"
	caps  = "\x00 report-status side-band-64k agent=test"
)

// lines are pkt-lines, and a flush-pkt.
func lines(texts ...string) []byte {
	var b []byte
	for _, text := range texts {
		b = appendLine(b, text)
	}
	return append(b, flushLine...)
}

// object is one entry of a pack that tests make by hand.
type object struct {
	kind kind
	base string // raw: of a delta
	data []byte
}

func commitObject(message string, parents ...string) object {
	data := "tree " + strings.Repeat("2", 40) + "\n"
	for _, parent := range parents {
		data += "parent " + parent + "\n"
	}
	return object{kind: kindCommit, data: []byte(data + "author A <a> 1 +0000\ncommitter A <a> 1 +0000\n\n" + message + "\n")}
}

func (o object) id() string {
	return fmt.Sprintf("%x", sha1.Sum(fmt.Appendf(nil, "commit %d\x00%s", len(o.data), o.data)))
}

func entryHead(kind kind, size int) []byte {
	b := []byte{byte(kind)<<4 | byte(size&15)}
	for size >>= 4; size > 0; size >>= 7 {
		b[len(b)-1] |= 0x80
		b = append(b, byte(size&0x7f))
	}
	return b
}

func makePack(objects ...object) []byte {
	b := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(objects)))
	for _, o := range objects {
		b = append(b, entryHead(o.kind, len(o.data))...)
		b = append(b, o.base...)
		b = append(b, deflated(o.data)...)
	}
	return checksummed(b)
}

func checksummed(pack []byte) []byte {
	sum := sha1.Sum(pack)
	return append(pack, sum[:]...)
}

func deflated(data []byte) []byte {
	var b bytes.Buffer
	z := zlib.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// TestCommandsRefused is about pushes that are refused before anything of them is sent on.
func TestCommandsRefused(t *testing.T) {
	t.Parallel()
	create := func(ref string) []byte { return lines(zeros + " " + ones + " " + ref + caps) }
	const branch = "refs/heads/agent/x"
	for _, tt := range []struct {
		name string
		body []byte
		want string // in the error
	}{
		{"nothing", nil, "it ends early"},
		{"not git", []byte("POST / HTTP/1.1\r\n\r\n"), "not in git's format"},
		{"a sign in a length", []byte("+0a8"), "not in git's format"},
		{"a delimiter", []byte("0001"), "of a length that git doesn't send"},
		{"an end of response", []byte("0002"), "of a length that git doesn't send"},
		{"an empty line", []byte("0004"), "of a length that git doesn't send"},
		{"the longest line and one more", []byte("fff1" + strings.Repeat("a", 65517)), "of a length that git doesn't send"},
		{"half a line", []byte("0080" + zeros), "it ends early"},
		{"no flush", appendLine(nil, zeros+" "+ones+" "+branch+caps), "it ends early"},
		{"a flush and more", append(lines(), lines(zeros+" "+ones+" "+branch+caps)...), "something follows its end"},
		{"a command without a ref", lines(zeros + " " + ones), "can't be read"},
		{"ids in upper case", lines(zeros + " " + strings.Repeat("A", 40) + " " + branch + caps), "can't be read"},
		{"ids of different lengths", lines(zeros + " " + strings.Repeat("1", 64) + " " + branch + caps), "not of its object format"},
		{"ids of another format", lines(zeros + " " + ones + " " + branch + caps + " object-format=sha256"), "not of its object format"},
		{"two formats", lines(zeros + " " + ones + " " + branch + caps + " object-format=sha1 object-format=sha256"), "object format"},
		{"an unknown format", lines(zeros + " " + ones + " " + branch + caps + " object-format=md5"), "object format"},
		{"an unknown capability", lines(zeros + " " + ones + " " + branch + caps + " proc-receive"), "not known here: proc-receive"},
		{"push options behind a tab", lines(zeros + " " + ones + " " + branch + caps + "\tpush-options"), "can't be read"},
		{"push options behind a second NUL", lines(zeros + " " + ones + " " + branch + caps + "\x00push-options"), "can't be read"},
		{"push options of the second command",
			lines(zeros+" "+ones+" "+branch+caps, zeros+" "+ones+" "+branch+"2\x00push-options"), "in a place where git"},
		{"push options", lines(zeros + " " + ones + " " + branch + caps + " push-options"), "push options"},
		{"push options as a value", lines(zeros + " " + ones + " " + branch + caps + " push-options=1"), "push options"},
		{"a certificate", lines("push-cert" + caps), "it is signed"},
		{"a certificate after a command", lines(zeros+" "+ones+" "+branch+caps, "push-cert"), "it is signed"},
		{"shallow lines alone", lines("shallow " + ones), "no commands"},
		{"shallow after a command", lines(zeros+" "+ones+" "+branch+caps, "shallow "+ones), "shallow line"},
		{"shallow with capabilities", lines("shallow " + ones + caps), "shallow line"},
		{"shallow with something else", lines("shallow " + ones + " x"), "shallow line"},
		{"shallow of another format", lines("shallow "+strings.Repeat("1", 64), zeros+" "+ones+" "+branch+caps), "not of its object format"},
		{"endless commands", bytes.Repeat(appendLine(nil, zeros+" "+ones+" "+branch), 20000), "more refs than can be judged"},

		{"main", create("refs/heads/main"), "not among"},
		{"HEAD", create("HEAD"), "not a name"},
		{"a branch without refs/heads", create("agent/x"), "not a name"},
		{"refs/for", create("refs/for/agent/x"), "not among"},
		{"refs/heads/refs/heads", create("refs/heads/refs/heads/agent/x"), "not among"},
		{"other case of the branch", create("refs/heads/AGENT/x"), "not among"},
		{"other case of refs", create("Refs/heads/agent/x"), "not a name"},
		{"a parent folder", create("refs/heads/agent/../main"), "not a name"},
		{"a folder's own name", create("refs/heads/agent/./x"), "not a name"},
		{"two slashes", create("refs/heads/agent//x"), "not a name"},
		{"a slash at the end", create("refs/heads/agent/x/"), "not a name"},
		{"a backslash", create(`refs/heads/agent\x`), "not a name"},
		{"a lock", create("refs/heads/agent/x.lock"), "not a name"},
		{"an option", create("refs/heads/agent/--upload-pack=x"), "not a name"},
		{"a reflog", create("refs/heads/agent/x@{1}"), "not a name"},
		{"an escape sequence", create("refs/heads/agent/\x1b[2Jx"), "not a name"},
		{"a space", create("refs/heads/agent/x y"), "not a name"},
		{"a line feed", create("refs/heads/agent/x\ny"), "not a name"},
		{"text that runs backwards", create("refs/heads/agent/\u202ex"), "not a name"},
		{"not UTF-8", create("refs/heads/agent/\xff"), "not a name"},
		{"nothing below the branch", create("refs/heads/agent"), "not among"},
		{"a ref twice", lines(zeros+" "+ones+" "+branch+caps, ones+" "+zeros+" "+branch), "twice"},
		{"deletion", lines(ones + " " + zeros + " " + branch + caps), "may not delete"},
		{"deletion of nothing", lines(zeros + " " + zeros + " " + branch + caps), "may not delete"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			passed, err := through(bytes.NewReader(tt.body))
			checkRefused(t, err, tt.want)
			if len(passed) > len(flushLine) {
				t.Errorf("%q was sent on", passed)
			}
		})
	}
}

// checkRefused checks that err is a refusal that says want, and that what
// people get to see of it has nothing that a terminal would act on.
func checkRefused(t *testing.T, err error, want string) {
	t.Helper()
	var refusal *Refusal
	if !errors.As(err, &refusal) {
		t.Fatalf("got %v, want a refusal", err)
	}
	if !strings.Contains(refusal.Error(), want) {
		t.Errorf("refused because %q, want %q", refusal, want)
	}
	checkReport(t, refusal)
}

func checkReport(t *testing.T, refusal *Refusal) {
	t.Helper()
	_, body := refusal.Report()
	for in := newTap(bytes.NewReader(body)); ; {
		line, flush, err := readLine(in)
		if err != nil || flush {
			if err == nil {
				err = in.ended()
			}
			if err != nil && refusal.sideband {
				t.Errorf("the report can't be read: %v\n%q", err, body)
			}
			break
		}
		text := strings.TrimLeft(line, bandData+bandProgress+bandError)
		if !refusal.sideband && strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\u202e' }) {
			t.Errorf("the report has control bytes: %q", line)
		}
	}
	if strings.ContainsAny(string(body), "\x1b\x00\x7f\r\t") || strings.ContainsAny(refusal.Error(), "\x1b\x00\x7f\r\t\n") {
		t.Errorf("the report has control bytes: %q", body)
	}
}

// TestPackRefused is about pushes whose commands are allowed, and whose pack
// must not be completed.
func TestPackRefused(t *testing.T) {
	t.Parallel()
	old := commitObject("old", zeros)
	next := commitObject("next", old.id())
	last := commitObject("last", next.id())
	other := commitObject("other", ones)
	fake := object{kind: kindBlob, data: next.data}
	update := func(to object) []byte {
		return lines(old.id() + " " + to.id() + " refs/heads/agent/x" + caps)
	}
	create := lines(zeros + " " + next.id() + " refs/heads/agent/x" + caps)
	rawOld, _ := parseID(old.id())
	nextAsDelta := object{kind: kindRefDelta, base: string(rawOld), data: delta(old.data, next.data)}

	for _, tt := range []struct {
		name     string
		commands []byte
		pack     []byte
		want     string // "": allowed
	}{
		{"forward", update(next), makePack(next), ""},
		{"forward by two", update(last), makePack(last, next), ""},
		{"forward, a commit twice", update(last), makePack(next, last, next), ""},
		{"forward with unrelated commits", update(last), makePack(other, last, next), ""},
		{"forward by a delta", update(next), makePack(old, nextAsDelta), ""},
		{"no objects, for a new branch", create, makePack(), ""},
		{"no objects, for an old branch", update(next), makePack(), "is not a commit of this push"},
		{"another history", update(other), makePack(other), "not a fast-forward"},
		{"another history with the right one beside it", update(other), makePack(other, next, last), "not a fast-forward"},
		{"back", lines(next.id() + " " + old.id() + " refs/heads/agent/x" + caps), makePack(old, next), "not a fast-forward"},
		{"a gap in the middle", update(last), makePack(last), "not a fast-forward"},
		{"a commit that is a blob", update(next), makePack(fake), "is not a commit of this push"},
		{"a commit that is a blob, in the middle", update(last), makePack(last, fake), "not a fast-forward"},
		{"a parent in the message", update(commitObject("x\nparent " + old.id())), makePack(commitObject("x\nparent " + old.id())), "not a fast-forward"},
		{"a parent after the author", update(lateParent(old.id())), makePack(lateParent(old.id())), "not a fast-forward"},
		{"a parent in upper case", update(commitObject("x", strings.ToUpper(old.id()))), makePack(commitObject("x", strings.ToUpper(old.id()))), "not a fast-forward"},
		{"a commit that says to be shallow", append(appendLine(nil, "shallow "+next.id()), update(next)...), makePack(next), "not a fast-forward"},
		{"a delta on what is not there", update(next), makePack(nextAsDelta), "is not a commit of this push"},
		{"a delta before its base", update(next), makePack(nextAsDelta, old), "is not a commit of this push"},
		{"a delta on a blob", update(next), makePack(object{kind: kindBlob, data: old.data}, nextAsDelta), "is not a commit of this push"},
		{"a delta on itself", update(next), makePack(old, object{kind: kindOfsDelta, base: "\x00", data: delta(old.data, next.data)}), "can't be read"},
		{"a delta on what is before the pack", update(next), makePack(old, object{kind: kindOfsDelta, base: "\xff\xff\x7f", data: delta(old.data, next.data)}), "can't be read"},
		{"a delta with an endless distance", update(next), makePack(old, object{kind: kindOfsDelta, base: strings.Repeat("\xff", 30) + "\x7f", data: nil}), "can't be read"},
		{"a delta of a wrong size", update(next), makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: []byte{1, 1, 1, 'a'}}), "can't be read"},
		{"a delta beyond its base", update(next), makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: append(sizes(len(old.data), 16), 0x91, 0xff, 16)}), "can't be read"},
		{"a delta with instruction 0", update(next), makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: append(sizes(len(old.data), 1), 0)}), "can't be read"},
		{"a delta without sizes", update(next), makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: []byte{0x80}}), "can't be read"},
		{"a delta to what is huge", update(next), makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: sizes(len(old.data), 1<<40)}), "too large"},

		{"no pack", create, nil, "ends early"},
		{"another version", create, append([]byte("PACK\x00\x00\x00\x03"), makePack(next)[8:]...), "can't be read"},
		{"an object of type 0", create, makePack(object{kind: 0, data: next.data}), "can't be read"},
		{"an object of type 5", create, makePack(object{kind: 5, data: next.data}), "can't be read"},
		{"without a checksum", create, makePack(next)[:len(makePack(next))-20], "ends early"},
		{"without an end of the checksum", create, makePack(next)[:len(makePack(next))-1], "ends early"},
		{"a second checksum", create, checksummed(makePack(next)), "something follows"},
		{"a second pack", create, append(makePack(next), makePack(next)...), "something follows"},
		{"commands after the pack", create, append(makePack(next), update(other)...), "something follows"},
		{"a second flush before the pack", append(bytes.Clone(create), flushLine...), makePack(next), "can't be read"},
		{"commands before the pack", append(bytes.Clone(create), update(other)...), makePack(next), "can't be read"},
		{"more objects than it says", create, counted(makePack(next, last), 1), "something follows"},
		{"fewer objects than it says", create, counted(makePack(next), 2), "can't be read"},
		{"4 billion objects", create, counted(makePack(), 1<<32-1), "can't be read"},
		{"an object larger than it says", create, sized(next, len(next.data)-1), "can't be read"},
		{"an object smaller than it says", create, sized(next, len(next.data)+1), "can't be read"},
		{"an object of more than 2^53 bytes", create, checksummed([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\xbf\xff\xff\xff\xff\xff\xff\xff\xff\x7f")), "can't be read"},
		{"not zlib", create, checksummed([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31abcdefgh")), "can't be read"},
		{"zlib with a dictionary", create, checksummed(append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31"), withDictionary()...)), "can't be read"},
		{"a wrong Adler-32", create, checksummed(broken(next)), "can't be read"},
		{"a commit of 2 MiB", update(next), makePack(object{kind: kindCommit, data: make([]byte, 2<<20)}), "too large"},
		{"empty blocks without end", create, append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01\x31\x78\x9c"), bytes.Repeat([]byte("\x00\x00\x00\xff\xff"), 1<<20)...), "can't be read"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			body := append(bytes.Clone(tt.commands), tt.pack...)
			passed, err := through(bytes.NewReader(body))
			checkPassed(t, body, passed, err)
			if tt.want != "" {
				checkRefused(t, err, tt.want)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// checkPassed checks what holds of every push: it is sent on as it is, and, when
// it is refused, not to the end of its pack.
func checkPassed(t *testing.T, body, passed []byte, err error) {
	t.Helper()
	if !bytes.HasPrefix(body, passed) {
		t.Errorf("what was sent on is not what came: %q", passed)
	}
	if err == nil && len(passed) != len(body) {
		t.Errorf("%d of %d bytes of an allowed push were sent on", len(passed), len(body))
	}
	if err != nil && holdsPack(passed) {
		t.Error("a whole pack of a refused push was sent on")
	}
}

// holdsPack says whether there is a pack with its checksum in b.
func holdsPack(b []byte) bool {
	at := bytes.Index(b, []byte("PACK"))
	if at < 0 {
		return false
	}
	hash := sha1.New()
	for b = b[at:]; len(b) > sha1.Size; b = b[1:] {
		hash.Write(b[:1])
		if bytes.HasPrefix(b[1:], hash.Sum(nil)) {
			return true
		}
	}
	return false
}

func lateParent(parent string) object {
	o := commitObject("x")
	o.data = bytes.Replace(o.data, []byte("\ncommitter"), []byte("\nparent "+parent+"\ncommitter"), 1)
	return o
}

// sizes are what a delta begins with.
func sizes(from, to int) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(nil, uint64(from)), uint64(to))
}

// delta makes to of from, which it takes one byte of.
func delta(from, to []byte) []byte {
	b := append(sizes(len(from), len(to)), 0x90, 1) // from[0:1]
	for rest := to[1:]; len(rest) > 0; {
		n := min(len(rest), 127)
		b = append(append(b, byte(n)), rest[:n]...)
		rest = rest[n:]
	}
	return b
}

func counted(pack []byte, count uint32) []byte {
	pack = bytes.Clone(pack[:len(pack)-sha1.Size])
	binary.BigEndian.PutUint32(pack[8:], count)
	return checksummed(pack)
}

func sized(o object, size int) []byte {
	b := append([]byte("PACK\x00\x00\x00\x02\x00\x00\x00\x01"), entryHead(o.kind, size)...)
	return checksummed(append(b, deflated(o.data)...))
}

func broken(o object) []byte {
	pack := makePack(o)
	pack = pack[:len(pack)-sha1.Size]
	pack[len(pack)-1] ^= 1
	return pack
}

func withDictionary() []byte {
	var b bytes.Buffer
	z, _ := zlib.NewWriterLevelDict(&b, zlib.DefaultCompression, []byte("dictionary"))
	z.Write([]byte("d"))
	z.Close()
	return b.Bytes()
}

// TestInPieces reads pushes as a network may bring them.
func TestInPieces(t *testing.T) {
	t.Parallel()
	old := commitObject("old", zeros)
	next := commitObject("next", old.id())
	good := append(lines(old.id()+" "+next.id()+" refs/heads/agent/x"+caps), makePack(next)...)
	bad := append(lines(ones+" "+next.id()+" refs/heads/agent/x"+caps), makePack(next)...)
	for name, pieces := range map[string]func(io.Reader) io.Reader{
		"one byte": iotest.OneByteReader, "half": iotest.HalfReader, "the end with data": iotest.DataErrReader,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if passed, err := through(pieces(bytes.NewReader(good))); err != nil || !bytes.Equal(passed, good) {
				t.Errorf("%d of %d bytes, %v", len(passed), len(good), err)
			}
			passed, err := through(pieces(bytes.NewReader(bad)))
			checkRefused(t, err, "not a fast-forward")
			if len(passed) > len(bad)-sha1.Size {
				t.Error("the checksum was sent on")
			}
		})
	}
}

// TestCutAnywhere breaks a push off at every byte: no part of it counts as one.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	old := commitObject("old", zeros)
	next := commitObject("next", old.id())
	body := append(lines(old.id()+" "+next.id()+" refs/heads/agent/x"+caps), makePack(next)...)
	broken := errors.New("the connection broke")
	for n := range body {
		passed, err := through(bytes.NewReader(body[:n]))
		checkRefused(t, err, "ends early")
		if len(passed) > len(body)-sha1.Size {
			t.Fatalf("cut at %d: the checksum was sent on", n)
		}
		// A body that fails is no refusal: nobody is there to read one.
		_, err = through(io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestRefusedForGood reads on after a refusal.
func TestRefusedForGood(t *testing.T) {
	t.Parallel()
	next := commitObject("next", zeros)
	body := append(lines(ones+" "+next.id()+" refs/heads/agent/x"+caps), makePack(next)...)
	guard, err := Guard(bytes.NewReader(body), rule)
	if err != nil {
		t.Fatal(err)
	}
	_, first := io.ReadAll(guard)
	n, second := guard.Read(make([]byte, 100))
	if n != 0 || first != second {
		t.Errorf("%d bytes, %v after %v", n, second, first)
	}
}

// TestZeroRuleAllowsNothing.
func TestZeroRuleAllowsNothing(t *testing.T) {
	t.Parallel()
	_, err := Guard(bytes.NewReader(lines(zeros+" "+ones+" refs/heads/main"+caps)), forage.GitRule{})
	checkRefused(t, err, "not among")
}

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

// TestReport is what clients of every kind are told.
func TestReport(t *testing.T) {
	t.Parallel()
	commands := []string{zeros + " " + ones + " refs/heads/main", zeros + " " + ones + " refs/heads/agent/x"}
	for _, tt := range []struct {
		name, caps string
		want       string
	}{
		{"in a side band", " report-status-v2 side-band-64k",
			"003c\x02forage: this sandbox may push to agent/*, refs/tags/v*\n" +
				"00af\x01000eunpack ok\n" +
				"0050ng refs/heads/main forage: not among the refs that this sandbox may push to\n" +
				"0048ng refs/heads/agent/x forage: refused with another ref of this push\n0000" + "0000"},
		{"without one", " report-status", "000eunpack ok\n" +
			"0050ng refs/heads/main forage: not among the refs that this sandbox may push to\n" +
			"0048ng refs/heads/agent/x forage: refused with another ref of this push\n0000"},
		{"without a report", " side-band-64k", "\x03forage: push refused: refs/heads/main: not among the refs that this sandbox may push to\n0000"},
		{"with nothing", "", "ERR forage: push refused: refs/heads/main: not among the refs that this sandbox may push to\n0000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Guard(bytes.NewReader(lines(commands[0]+"\x00"+tt.caps, commands[1])), rule)
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			contentType, body := refusal.Report()
			if contentType != "application/x-git-receive-pack-result" {
				t.Errorf("the type is %q", contentType)
			}
			got := string(body)
			if !strings.HasPrefix(tt.want, "00") && len(got) > 4 {
				got = got[4:]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
