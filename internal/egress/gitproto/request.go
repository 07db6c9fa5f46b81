package gitproto

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"strings"
)

// format is how a repository names its objects (gitformat-object-format, extensions.objectFormat).
type format struct {
	name string
	size int // of an id, in bytes
	hash func() hash.Hash
}

var (
	sha1Format   = format{"sha1", sha1.Size, sha1.New}
	sha256Format = format{"sha256", sha256.Size, sha256.New}
)

// id is an object's name as bytes.
type id string

func (i id) zero() bool { return strings.Trim(string(i), "\x00") == "" }

// String is short, as git shows ids to people.
func (i id) String() string { return hex.EncodeToString([]byte(i))[:10] }

// parseID reads an id in lower case, as git writes it.
func parseID(text string) (id, bool) {
	if len(text) != 2*sha1.Size && len(text) != 2*sha256.Size || strings.ToLower(text) != text {
		return "", false
	}
	raw, err := hex.DecodeString(text)
	return id(raw), err == nil
}

// command is what a push asks for one ref: from old, zero for one that
// doesn't exist, to new, zero for deleting it.
type command struct {
	old, new id
	ref      string
}

func (c command) deletes() bool { return c.new.zero() }

// moves says that the commits of the pack have to show that new follows from old.
func (c command) moves() bool { return !c.old.zero() && !c.deletes() && c.old != c.new }

// request is what comes before the pack.
type request struct {
	commands []command
	shallow  map[id]bool // commits whose parents the client says that it doesn't have
	format   format
	status   bool // the client wants to know ref by ref
	sideband bool // side-band-64k
	options  bool // push options follow
}

// readRequest reads shallow lines, commands and capabilities. The request is as
// far as it was read when there is an error.
func readRequest(in *tap) (*request, error) {
	r := &request{shallow: map[id]bool{}, format: sha1Format}
	for {
		line, flush, err := readLine(in)
		if err != nil {
			return r, err
		}
		if flush {
			return r, r.consistent()
		}
		if in.held() > maxCommands {
			return r, reason("it names more refs than can be judged at once")
		}
		if err := r.line(line); err != nil {
			return r, err
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
	if name, found := strings.CutPrefix(text, "shallow "); found {
		shallow, valid := parseID(name)
		if ok || !valid || len(r.commands) > 0 {
			return reason("it has a shallow line that git wouldn't send")
		}
		r.shallow[shallow] = true
		return nil
	}
	fields := strings.SplitN(text, " ", 3)
	if len(fields) != 3 {
		return reason("it has a command that can't be read")
	}
	from, okFrom := parseID(fields[0])
	to, okTo := parseID(fields[1])
	if !okFrom || !okTo {
		return reason("it has a command that can't be read")
	}
	r.commands = append(r.commands, command{old: from, new: to, ref: fields[2]})
	return nil
}

// capabilities reads what the client asks for. What isn't known could change the
// meaning of what follows.
func (r *request) capabilities(text string) error {
	if strings.ContainsFunc(text, func(c rune) bool { return c < ' ' || c == 0x7f }) {
		return reason("it has capabilities that can't be read")
	}
	formats := 0
	for _, capability := range strings.Fields(text) {
		key, value, _ := strings.Cut(capability, "=")
		switch key {
		case "report-status", "report-status-v2":
			r.status = true
		case "side-band-64k":
			r.sideband = true
		case "push-options":
			r.options = true
		case "object-format":
			formats++
			switch {
			case formats == 1 && value == sha256Format.name:
				r.format = sha256Format
			case formats == 1 && value == sha1Format.name:
			default:
				return reason("its object format is not known here")
			}
		case "atomic", "quiet", "ofs-delta", "delete-refs", "no-thin", "agent", "session-id", "push-cert":
		default:
			return reason("it asks for a capability that is not known here: " + key)
		}
	}
	return nil
}

// consistent checks that ids are of the push's object format.
func (r *request) consistent() error {
	for _, c := range r.commands {
		if len(c.old) != r.format.size || len(c.new) != r.format.size {
			return reason("its ids are not of its object format")
		}
	}
	for shallow := range r.shallow {
		if len(shallow) != r.format.size {
			return reason("its ids are not of its object format")
		}
	}
	if len(r.commands) == 0 && len(r.shallow) > 0 {
		return reason("it has no commands")
	}
	return nil
}

// updates says whether the pack's commits are needed to judge the push.
func (r *request) updates() bool {
	for _, c := range r.commands {
		if c.moves() {
			return true
		}
	}
	return false
}
