package policy

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// glob is a pattern of whole paths: "*" stands for any characters within a
// segment, a segment "**" for any number of segments, none included. A slash
// at the end means nothing, in patterns and in paths.
type glob struct {
	text     string
	segments []string
	rank     globRank
}

// globRank says how special a glob is. It is compared field by field; what
// doesn't depend on a request can be explained before there is one.
type globRank struct {
	whole   int // segments that are written out
	part    int // segments with "*" and something else
	bounded int // 1: no "**"
	length  int // characters
}

func (r globRank) compare(o globRank) int {
	return cmp.Or(
		cmp.Compare(r.whole, o.whole), cmp.Compare(r.part, o.part),
		cmp.Compare(r.bounded, o.bounded), cmp.Compare(r.length, o.length))
}

// maxGlob bounds a pattern, in bytes.
const maxGlob = 1024

// parseGlob reads a pattern that begins with "/".
func parseGlob(text string) (*glob, error) {
	if err := checkGlob(text); err != nil {
		return nil, err
	}
	g := &glob{text: text, segments: segments(text), rank: globRank{bounded: 1, length: len(strings.TrimSuffix(text, "/"))}}
	for _, s := range g.segments {
		switch {
		case s == "**":
			g.rank.bounded = 0
		case strings.Contains(s, "**"):
			return nil, fmt.Errorf(`%.80q: "**" has to be a segment of its own, as in /a/**/b`, text)
		case s == "*":
		case strings.Contains(s, "*"):
			g.rank.part++
		case s == "" || s == "." || s == "..":
			return nil, fmt.Errorf("%.80q: expected a path without empty or dot segments", text)
		default:
			g.rank.whole++
		}
	}
	return g, nil
}

func checkGlob(text string) error {
	switch {
	case len(text) > maxGlob:
		return fmt.Errorf("expected a path of at most %d bytes", maxGlob)
	case !strings.HasPrefix(text, "/"):
		return fmt.Errorf("%.80q: expected a path that begins with /", text)
	case strings.ContainsAny(text, "?#"):
		return fmt.Errorf("%.80q: expected a path alone: what follows ? or # is not looked at", text)
	case strings.Contains(unslashed(text), "%"):
		return fmt.Errorf(`%.80q: expected the path as it is meant, without "%%" (but for %%2F): requests are decoded before they are compared`, text)
	case strings.ContainsAny(text, `\;`):
		return fmt.Errorf(`%.80q: expected a path without "\" and ";"`, text)
	case strings.ContainsFunc(text, isControl) || !utf8.ValidString(text):
		return errors.New("expected a path of printable characters")
	}
	return nil
}

// unslashed is a pattern without the escaped slashes that it may have.
func unslashed(text string) string {
	return strings.ReplaceAll(strings.ReplaceAll(text, "%2F", ""), "%2f", "")
}

// parseGlobs reads a pattern that may have escaped slashes, as names have that
// hold one (acme%2Fsite). Servers may read them as slashes, so it is two patterns then.
func parseGlobs(text string) ([]*glob, error) {
	g, err := parseGlob(strings.ReplaceAll(text, "%2f", "%2F"))
	if err != nil || unslashed(text) == text {
		return []*glob{g}, err
	}
	open, err := parseGlob(strings.ReplaceAll(g.text, "%2F", "/"))
	return []*glob{g, open}, err
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }

// lower makes the glob one for paths in lower case.
func (g *glob) lower() {
	for i, s := range g.segments {
		g.segments[i] = strings.ToLower(s)
	}
}

// segments splits a path behind its first slash; a last one that is empty is left out.
func segments(path string) []string {
	path = strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/")
	if path == "" {
		return nil
	}
	return strings.Split(path, "/")
}

// match says whether the glob matches a whole path, given as its segments. It
// takes steps in the order of their product, whatever the two are.
func (g *glob) match(path []string) bool {
	return wild(g.segments, path, "**", matchSegment)
}

// matchSegment says whether a segment of a glob matches one of a path.
func matchSegment(pattern, segment string) bool {
	if !strings.Contains(pattern, "*") {
		return pattern == segment
	}
	return wild([]byte(pattern), []byte(segment), '*', func(p, s byte) bool { return p == s })
}

// wild matches text against a pattern in which any stands for any number of
// elements. Only the last such place is ever tried again: an earlier one could
// do no better.
func wild[E comparable](pattern, text []E, any E, same func(pattern, text E) bool) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == any:
			star, mark = p, t
			p++
		case p < len(pattern) && same(pattern[p], text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	for p < len(pattern) && pattern[p] == any {
		p++
	}
	return p == len(pattern)
}
