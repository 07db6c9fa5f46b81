package gitproto

import (
	"fmt"
	"slices"
	"strings"

	"forage/internal/term"
)

// ContentType is that of answers to a POST to git-receive-pack (gitprotocol-http(5)).
const ContentType = "application/x-git-receive-pack-result"

// Bands of side-band-64k (gitprotocol-pack(5)).
const (
	bandData     = "\x01"
	bandProgress = "\x02"
	bandError    = "\x03"
)

// Refusal is a push that is not allowed: all of it, even if that is because of one ref.
type Refusal struct {
	whole string // why, if that is not a matter of single refs
	refs  []refusedRef
	hint  string // what would be allowed

	status, sideband bool // what the client understands
}

type refusedRef struct {
	ref string
	why string // "": it is refused because of others
}

// refuse makes a Refusal of what is wrong with the push as a whole, or with the
// commands whose numbers reasons has.
func (r *request) refuse(whole string, reasons map[int]string) *Refusal {
	refusal := &Refusal{whole: whole, status: r.status, sideband: r.sideband}
	for i, c := range r.commands {
		refusal.refs = append(refusal.refs, refusedRef{ref: c.ref, why: reasons[i]})
	}
	return refusal
}

// Error says why in one line without control bytes, for the audit log.
func (r *Refusal) Error() string {
	if r.whole != "" {
		return term.Escape("push refused: " + r.whole)
	}
	const most = 3
	var parts []string
	count := 0
	for _, ref := range r.refs {
		if ref.why == "" {
			continue
		}
		if count++; count <= most {
			parts = append(parts, term.Escape(cut(ref.ref)+": "+ref.why))
		}
	}
	if count > most {
		parts = append(parts, fmt.Sprintf("and %d more", count-most))
	}
	return "push refused: " + strings.Join(parts, "; ")
}

// Report is the answer that makes git show its user, ref by ref, what is
// not allowed; contentType is that of the answer, whose status is 200. In the form that the client
// asked for: report-status, in side-band-64k or not (gitprotocol-pack(5)).
func (r *Refusal) Report() (contentType string, body []byte) {
	if !r.status {
		return ContentType, r.fatal()
	}
	var report []byte
	if r.whole != "" && len(r.refs) == 0 {
		report = appendLine(report, "unpack forage: "+term.Escape(r.whole)+"\n")
	} else {
		report = appendLine(report, "unpack ok\n")
	}
	for _, ref := range r.refs {
		report = appendLine(report, "ng "+shown(ref.ref)+" forage: "+r.why(ref)+"\n")
	}
	report = append(report, flushLine...)
	if !r.sideband {
		return ContentType, report
	}
	if r.hint != "" {
		body = appendLine(body, bandProgress+"forage: "+cut(r.hint)+"\n")
	}
	for part := range slices.Chunk(report, maxLine-5) {
		body = appendLine(body, bandData+string(part))
	}
	return ContentType, append(body, flushLine...)
}

// why is the reason that a ref's line gives.
func (r *Refusal) why(ref refusedRef) string {
	switch {
	case ref.why != "":
		return term.Escape(ref.why)
	case r.whole != "":
		return "the push is refused: " + term.Escape(r.whole)
	default:
		return "refused with another ref of this push"
	}
}

// fatal is for a client that hasn't asked for a report: it would take an empty answer for success.
func (r *Refusal) fatal() []byte {
	text := "forage: " + cut(r.Error()) + "\n"
	if r.sideband {
		return append(appendLine(nil, bandError+text), flushLine...)
	}
	return append(appendLine(nil, "ERR "+text), flushLine...)
}

// shown is a ref as a report's line can have it: a space would end it.
func shown(ref string) string {
	return strings.ReplaceAll(term.Escape(cut(ref)), " ", `\x20`)
}

// cut keeps a line a line.
func cut(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "..."
}
