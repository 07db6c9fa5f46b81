// Package gitproto judges a git push (gitprotocol-pack(5), gitprotocol-http(5)) by the commands
// at its beginning, before anything of it is sent on.
//
// The commands name the refs and say what is to become of each. The pack that follows is not
// read: whether it moves a ref forward or drops commits is not known here.
//
// It is not for repositories: which of them may be pushed to is policy's matter,
// as is what a ref's name has to look like. It knows nothing of HTTP.
package gitproto

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"strconv"
	"strings"

	"forage"
	"forage/internal/policy"
	"forage/internal/term"
)

// Bounds of a push, in bytes.
const (
	maxCommands = 1 << 20
	maxLine     = 65520 // of a pkt-line, its length included (gitprotocol-common(5))
)

// Guard returns what to send on in place of body, the body of a POST to git-receive-pack. It has
// to be the body as receive-pack reads it: a request with a Content-Encoding must be refused first.
//
// A *Refusal means that nothing of the push must be sent on, and that the client gets the Refusal's
// Report. Other errors are body's own.
func Guard(body io.Reader, rule forage.GitRule) (io.Reader, error) {
	var read bytes.Buffer
	req := &request{}
	err := req.read(io.TeeReader(body, &read), &read)
	if err == nil {
		if refusal := req.judge(rule); refusal != nil {
			return nil, refusal
		}
		return io.MultiReader(&read, body), nil
	}
	var why reason
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return nil, req.refuse("it ends early", nil)
	case errors.As(err, &why):
		return nil, req.refuse(string(why), nil)
	}
	return nil, err
}

// reason is why a whole push is not allowed, for people.
type reason string

func (r reason) Error() string { return string(r) }

// command is what a push asks for one ref.
type command struct {
	ref     string
	deletes bool
}

// request is what comes before the pack.
type request struct {
	commands []command
	shallow  bool // there are shallow lines
	status   bool // the client wants to know ref by ref
	sideband bool // side-band-64k
	options  bool // push options follow
}

// read reads shallow lines, commands and capabilities, up to the flush-pkt. The request is as
// far as it was read when there is an error. held is what was read.
func (r *request) read(in io.Reader, held *bytes.Buffer) error {
	for {
		line, flush, err := readLine(in)
		switch {
		case err != nil:
			return err
		case held.Len() > maxCommands:
			return reason("it names more refs than can be judged at once")
		case flush && len(r.commands) > 0:
			return nil
		case flush && r.shallow:
			return reason("it has no commands")
		case flush: // git asks so whether it may push
			switch _, err := io.ReadFull(in, make([]byte, 1)); err {
			case io.EOF:
				return nil
			case nil:
				return reason("something follows its end")
			default:
				return err
			}
		}
		if err := r.line(line); err != nil {
			return err
		}
	}
}

func (r *request) line(line string) error {
	// git's server takes capabilities from every line that has a NUL; its client
	// sends them with the first command alone.
	text, capabilities, ok := strings.Cut(line, "\x00")
	if ok {
		if len(r.commands) > 0 {
			return reason("it has capabilities in a place where git doesn't send them")
		}
		if err := r.capabilities(capabilities); err != nil {
			return err
		}
	}
	if text == "push-cert" {
		return reason("it is signed (git push --signed), and what it signs can't be judged")
	}
	if id, found := strings.CutPrefix(text, "shallow "); found {
		if ok || !isID(id) || len(r.commands) > 0 {
			return reason("it has a shallow line that git wouldn't send")
		}
		r.shallow = true
		return nil
	}
	fields := strings.SplitN(text, " ", 3)
	if len(fields) != 3 || !isID(fields[0]) || !isID(fields[1]) || len(fields[0]) != len(fields[1]) {
		return reason("it has a command that can't be read")
	}
	r.commands = append(r.commands, command{fields[2], strings.Trim(fields[1], "0") == ""})
	return nil
}

// capabilities reads what the client asks for. What isn't known could change the
// meaning of what follows.
func (r *request) capabilities(text string) error {
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return reason("it has capabilities that can't be read")
	}
	for _, capability := range strings.Fields(text) {
		key, _, _ := strings.Cut(capability, "=")
		switch key {
		case "report-status", "report-status-v2":
			r.status = true
		case "side-band-64k":
			r.sideband = true
		case "push-options":
			r.options = true
		case "atomic", "quiet", "ofs-delta", "delete-refs", "no-thin", "agent", "session-id", "push-cert", "object-format":
		default:
			return reason("it asks for a capability that is not known here: " + key)
		}
	}
	return nil
}

// judge returns nil for a push that is allowed.
func (r *request) judge(rule forage.GitRule) *Refusal {
	reasons := make(map[int]string)
	seen := make(map[string]bool)
	hint := ""
	for i, c := range r.commands {
		switch {
		case r.options:
			reasons[i] = "push options (git push -o) are not allowed: a server acts on them"
		case !policy.IsRef(c.ref):
			reasons[i] = "not a name that git allows for a ref"
		case seen[c.ref]:
			reasons[i] = "named twice in one push"
		case !policy.AllowsRef(rule, c.ref):
			reasons[i], hint = "not among the refs that this sandbox may push to", allowed(rule)
		case c.deletes:
			reasons[i] = "this sandbox may not delete refs"
		}
		seen[c.ref] = true
	}
	if len(reasons) == 0 {
		return nil
	}
	refusal := r.refuse("", reasons)
	refusal.hint = hint
	return refusal
}

// allowed is what may be pushed to, in words.
func allowed(rule forage.GitRule) string {
	if len(rule.Push) == 0 {
		return "this sandbox may not push to this repository"
	}
	return "this sandbox may push to " + term.Escape(strings.Join(rule.Push, ", "))
}

// isID says whether text is an object's name, by SHA-1 or SHA-256, as git writes it.
func isID(text string) bool {
	_, err := hex.DecodeString(text)
	return err == nil && (len(text) == 40 || len(text) == 64) && strings.ToLower(text) == text
}

// readLine reads a pkt-line without its line feed; flush is true at a flush-pkt.
func readLine(in io.Reader) (line string, flush bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return "", false, err
	}
	size, err := strconv.ParseUint(string(head[:]), 16, 16)
	switch {
	case err != nil || strings.Trim(string(head[:]), "0123456789abcdefABCDEF") != "":
		return "", false, reason("it is not in git's format")
	case size == 0:
		return "", true, nil
	case size <= 4 || size > maxLine: // 1 to 3 are other packets than lines, which a push doesn't have
		return "", false, reason("it has a line of a length that git doesn't send")
	}
	text := make([]byte, size-4)
	if _, err := io.ReadFull(in, text); err != nil {
		return "", false, err
	}
	return strings.TrimSuffix(string(text), "\n"), false, nil
}

// appendLine appends a pkt-line.
func appendLine(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	n := len(text) + 4
	b = append(b, hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15])
	return append(b, text...)
}

const flushLine = "0000"
