package gitproto

import (
	"bytes"
	"crypto/sha1"
	"strings"
	"testing"
)

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
