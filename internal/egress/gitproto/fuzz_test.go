package gitproto

import (
	"bytes"
	"errors"
	"testing"
	"testing/iotest"
)

// FuzzGuard reads anything as a push: what is sent on is what came, nothing of a refused push
// is, and it doesn't matter in what pieces it comes.
func FuzzGuard(f *testing.F) {
	for _, commands := range [][]byte{
		lines(ones + " " + zeros + " refs/heads/agent/x" + caps),
		lines("shallow "+ones, zeros+" "+ones+" refs/heads/agent/x"+caps),
		lines(zeros+" "+ones+" refs/heads/main"+caps, zeros+" "+ones+" refs/heads/agent/x"),
		lines("push-cert" + caps),
		lines(),
	} {
		f.Add(commands)
		f.Add(append(bytes.Clone(commands), "PACK"...))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		passed, err := through(bytes.NewReader(body))
		if err == nil && !bytes.Equal(passed, body) || err != nil && passed != nil {
			t.Errorf("%q became %q, %v", body, passed, err)
		}
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
