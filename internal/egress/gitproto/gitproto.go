// Package gitproto reads a git push (gitprotocol-pack(5), gitprotocol-http(5),
// gitformat-pack(5)) while it is sent on, and stops it when it does what a rule
// doesn't allow.
//
// What a push does is judged by what it says itself: the refs it names, and the
// commits that are in its pack. Nothing is asked of the server, and nothing of what the client claims
// about the server is believed. It need not be: a server moves a ref only if the
// ref still is where the push says that it was.
//
// It is not for repositories: which of them may be pushed to is policy's matter,
// as is what a ref's name has to look like. It knows nothing of HTTP.
package gitproto

import (
	"errors"
	"io"

	"forage"
)

// Bounds of what one push may have us keep or do.
const (
	maxCommands = 1 << 20  // bytes of commands
	maxCommits  = 32 << 20 // bytes of commits, with what it costs to keep them
	maxCommit   = 1 << 20  // bytes of one commit
	maxSteps    = 10 << 20 // commits looked at on the ways from new to old ids

	// A push may unfold to freeUnfolding bytes, and beyond that to maxUnfolding times what it has sent.
	freeUnfolding = 1 << 30
	maxUnfolding  = 64
)

// Guard returns what to send on in place of body, the body of a POST to
// git-receive-pack. It has to be the body as receive-pack reads it: a request with a
// Content-Encoding must be refused or decoded first, and the header dropped.
//
// A *Refusal, here or from reading, means that the push must not be completed: the rest of
// body is thrown away, the request that was sent on is broken off, and the client gets the Refusal's Report. The server has
// then not seen the pack's checksum, without which it does nothing. Other
// errors are body's own.
//
// The reader is for one goroutine at a time. What it keeps is bounded (about 40 MiB
// at worst, some 100 KiB for most pushes) however much is pushed.
func Guard(body io.Reader, rule forage.GitRule) (io.Reader, error) {
	in := newTap(body)
	req, err := readRequest(in)
	if err == nil {
		err = req.judge(rule)
	}
	if err != nil {
		return nil, req.refused(err)
	}
	p := &push{in: in, req: req}
	if len(req.commands) > 0 {
		p.pack = newScanner(in, req.format, req.updates())
	}
	return p, nil
}

// push is a push whose commands are allowed, on its way to the server.
type push struct {
	in   *tap
	req  *request
	pack *scanner // nil: no commands, so no pack
	err  error    // final
}

// Read gives on what has been judged. Nothing passes in the middle of a step, and
// the last step has both the pack's checksum and the verdict.
func (p *push) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		if p.err != nil && p.err != io.EOF {
			return 0, p.err
		}
		if n := p.in.give(b); n > 0 {
			return n, nil
		}
		if p.err != nil {
			return 0, p.err
		}
		p.err = p.step()
	}
}

// step reads a little further; io.EOF is the end of a push that is allowed.
func (p *push) step() error {
	if p.pack != nil {
		done, err := p.pack.step()
		if err != nil {
			return p.req.refused(err)
		}
		if !done {
			return nil
		}
	}
	if err := p.in.ended(); err != nil {
		return p.req.refused(err)
	}
	if p.pack != nil {
		if err := p.req.judgeCommits(p.pack.commits); err != nil {
			return p.req.refused(err)
		}
	}
	return io.EOF
}

// reason is why a whole push is not allowed, for people.
type reason string

func (r reason) Error() string { return string(r) }

// Reasons that are given in more than one place.
const (
	endsEarly  reason = "it ends early"
	unreadable reason = "its pack can't be read"
)

// refused makes a Refusal of an error; body's own errors stay as they are.
func (r *request) refused(err error) error {
	var whole reason
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refusal
	case errors.As(err, &whole):
		return r.refuse(string(whole), nil)
	default:
		return err
	}
}
