package gitproto

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

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
		{"ids of different lengths", lines(zeros + " " + strings.Repeat("1", 64) + " " + branch + caps), "can't be read"},
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
	for in := bytes.NewReader(body); ; {
		line, flush, err := readLine(in)
		if err != nil || flush {
			if refusal.sideband && (err != nil || in.Len() > 0) {
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

// TestCutAnywhere breaks commands off at every byte, and reads them as a network may bring them.
func TestCutAnywhere(t *testing.T) {
	t.Parallel()
	commands := lines(zeros + " " + ones + " refs/heads/agent/x" + caps)
	body := append(bytes.Clone(commands), "PACK..."...)
	for _, pieces := range []func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader} {
		if passed, err := through(pieces(bytes.NewReader(body))); err != nil || !bytes.Equal(passed, body) {
			t.Errorf("%d of %d bytes, %v", len(passed), len(body), err)
		}
	}
	broken := errors.New("the connection broke")
	for n := range commands {
		_, err := through(bytes.NewReader(body[:n]))
		checkRefused(t, err, "ends early")
		// A body that fails is no refusal: nobody is there to read one.
		_, err = through(io.MultiReader(bytes.NewReader(body[:n]), iotest.ErrReader(broken)))
		if !errors.Is(err, broken) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
}

// TestZeroRuleAllowsNothing.
func TestZeroRuleAllowsNothing(t *testing.T) {
	t.Parallel()
	_, err := Guard(bytes.NewReader(lines(zeros+" "+ones+" refs/heads/main"+caps)), forage.GitRule{})
	checkRefused(t, err, "not among")
}
