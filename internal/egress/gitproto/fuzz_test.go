package gitproto

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
)

// FuzzGuard reads anything as a push: what is sent on is what came, a refused push is
// never whole, and it doesn't matter in what pieces it comes.
func FuzzGuard(f *testing.F) {
	old := commitObject("old", zeros)
	next := commitObject("next", old.id())
	rawOld, _ := parseID(old.id())
	asDelta := object{kind: kindRefDelta, base: string(rawOld), data: delta(old.data, next.data)}
	for _, commands := range [][]byte{
		lines(old.id() + " " + next.id() + " refs/heads/agent/x" + caps),
		lines("shallow "+old.id(), zeros+" "+next.id()+" refs/heads/agent/x"+caps),
		lines(zeros+" "+next.id()+" refs/heads/main"+caps, zeros+" "+next.id()+" refs/heads/agent/x"),
		lines("push-cert" + caps),
		lines(),
	} {
		f.Add(commands)
		f.Add(append(bytes.Clone(commands), makePack(next)...))
		f.Add(append(bytes.Clone(commands), makePack(old, asDelta)...))
		f.Add(append(bytes.Clone(commands), makePack(old, next, object{kind: kindOfsDelta, base: "\x30", data: delta(next.data, old.data)})...))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		passed, err := through(bytes.NewReader(body))
		checkPassed(t, body, passed, err)
		var refusal *Refusal
		if errors.As(err, &refusal) {
			checkReport(t, refusal)
		} else if err != nil {
			t.Errorf("neither allowed nor refused: %v", err)
		}
		again, errAgain := through(iotest.OneByteReader(bytes.NewReader(body)))
		if (err == nil) != (errAgain == nil) || err != nil && err.Error() != errAgain.Error() || err == nil && !bytes.Equal(passed, again) {
			t.Errorf("in pieces: %v, as a whole: %v", errAgain, err)
		}
	})
}

// FuzzPack reads anything as a pack.
func FuzzPack(f *testing.F) {
	old := commitObject("old", zeros)
	next := commitObject("next", old.id())
	rawOld, _ := parseID(old.id())
	f.Add(makePack())
	f.Add(makePack(old, next))
	f.Add(makePack(old, object{kind: kindRefDelta, base: string(rawOld), data: delta(old.data, next.data)}))
	f.Add(makePack(object{kind: kindBlob, data: make([]byte, 1000)}, object{kind: kindTag, data: []byte("tag")}))
	f.Fuzz(func(t *testing.T, pack []byte) {
		s := newScanner(newTap(bytes.NewReader(pack)), sha1Format, true)
		var err error
		for done := false; !done && err == nil; {
			s.in.give(make([]byte, 64<<10))
			done, err = s.step()
		}
		if err == nil && s.in.read < 12+20 {
			t.Errorf("a pack of %d bytes", s.in.read)
		}
		for name, commit := range s.commits.byID {
			if s.commits.id(commit.data) != name {
				t.Errorf("%s is not the id of what is kept under it", name)
			}
		}
	})
}
