package policy

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// Bounds of what is judged by its path.
const (
	maxPath    = 8 << 10  // bytes; servers take no longer ones by default
	maxDecoded = 3        // times that a path is decoded: by a proxy, by a server, by a program
	maxRead    = 64 << 10 // bytes of all its readings: what is long has few
)

// readings are the paths, as segments, that servers may take a path for: as it
// is; decoded, also more than once, %2f and %5c included; with "\" as "/", with parameters (";...") or what
// follows a decoded "?" or "#" cut off, with look-alikes (NFKC) as what they look like; and each of
// those with dot segments and empty segments left or taken away, in either order. The
// first is the one that is meant. ok is false for what can't be judged: control characters,
// bytes that are not UTF-8, more escapes, or more readings, than anybody means.
//
// Characters that have to be escaped in a path (RFC 3986, 3.3) are the same escaped and not.
func readings(raw string) (all [][]string, ok bool) {
	if raw == "" {
		raw = "/"
	}
	if len(raw) > maxPath || raw[0] != '/' {
		return nil, false
	}
	if isOrdinary(raw) {
		return [][]string{segments(raw)}, true
	}
	levels, ok := decodings(raw)
	if !ok {
		return nil, false
	}
	found := &spelled{seen: map[string]bool{}}
	for _, level := range levels {
		found.add(level)
	}
	if found.bytes > maxRead {
		return nil, false
	}
	for _, reading := range found.list {
		all = append(all, segments(reading))
	}
	return all, true
}

// Readings are the paths that servers may take a path of a request for, for who judges by
// a list of its own; ok is false for a path that can't be judged, and should be refused.
func Readings(raw string) (paths []string, ok bool) {
	all, ok := readings(raw)
	for _, segments := range all {
		paths = append(paths, "/"+strings.Join(segments, "/"))
	}
	return paths, ok
}

// isOrdinary says whether there is only one way to read a path.
func isOrdinary(raw string) bool {
	for i := 0; i < len(raw); i++ {
		if c := raw[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(`%\;?#`, c) >= 0 {
			return false
		}
	}
	return !strings.Contains(raw, "//") && !strings.Contains(raw, "/.")
}

// decodings are the path with the escapes decoded that mean nothing but a
// character, then decoded whole once, twice and so on until nothing changes.
func decodings(raw string) (levels []string, ok bool) {
	raw = upperEscapes(raw)
	levels = []string{decode(raw, mustEscape)}
	for len(levels) <= maxDecoded {
		last := raw
		if len(levels) > 1 {
			last = levels[len(levels)-1]
		}
		next := decode(last, func(byte) bool { return true })
		if next == last {
			break
		}
		levels = append(levels, next)
	}
	last := levels[len(levels)-1]
	if len(levels) > maxDecoded && decode(last, func(byte) bool { return true }) != last {
		return nil, false
	}
	for _, level := range levels {
		if !utf8.ValidString(level) || strings.ContainsFunc(level, isControl) {
			return nil, false
		}
	}
	return levels, true
}

// mustEscape says whether a byte can be in a path only as an escape, and means
// the same for every server.
func mustEscape(c byte) bool {
	return c >= 0x80 || strings.IndexByte(" \"<>[]^`{|}", c) >= 0
}

// decode takes away the escapes of those bytes that which says.
func decode(s string, which func(byte) bool) string {
	if !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := escape(s[i:]); ok && which(c) {
			b.WriteByte(c)
			i += 2
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// upperEscapes writes escapes in upper case, which is the same (RFC 3986, 6.2.2.1).
func upperEscapes(s string) string {
	b := []byte(s)
	for i := range b {
		if _, ok := escape(s[i:]); ok {
			copy(b[i+1:i+3], strings.ToUpper(s[i+1:i+3]))
		}
	}
	return string(b)
}

// escape is the byte that s begins with as an escape.
func escape(s string) (c byte, ok bool) {
	if len(s) < 3 || s[0] != '%' {
		return 0, false
	}
	hi, lo := unhex(s[1]), unhex(s[2])
	return hi<<4 | lo, hi < 16 && lo < 16
}

func unhex(c byte) byte {
	switch {
	case '0' <= c && c <= '9':
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 0xff
}

// spelled collects spellings of a path, each once, until there are too many.
type spelled struct {
	list  []string
	seen  map[string]bool
	bytes int
}

func (s *spelled) put(path string) {
	if !s.seen[path] && s.bytes <= maxRead {
		s.seen[path] = true
		s.list = append(s.list, path)
		s.bytes += len(path)
	}
}

// add adds a decoded path and what else it may be taken for.
func (s *spelled) add(path string) {
	from := len(s.list)
	s.put(path)
	for _, change := range []func(string) string{
		norm.NFKC.String,
		func(p string) string { return strings.ReplaceAll(p, `\`, "/") },
		cutTail,
		cutParameters,
		mergeSlashes,
		removeDots,
		mergeSlashes, // of what is left
	} {
		for _, p := range s.list[from:] {
			s.put(change(p))
		}
	}
}

// cutTail cuts off what a second parser takes for a query or a fragment.
func cutTail(s string) string {
	if i := strings.IndexAny(s, "?#"); i >= 0 {
		return s[:i]
	}
	return s
}

// cutParameters takes ";..." from the end of every segment (RFC 3986, 3.3).
func cutParameters(s string) string {
	if !strings.Contains(s, ";") {
		return s
	}
	parts := strings.Split(s, "/")
	for i, part := range parts {
		parts[i], _, _ = strings.Cut(part, ";")
	}
	return strings.Join(parts, "/")
}

func mergeSlashes(s string) string {
	for strings.Contains(s, "//") {
		s = strings.ReplaceAll(s, "//", "/")
	}
	return s
}

// removeDots takes away dot segments and keeps empty ones (RFC 3986, 5.2.4).
func removeDots(s string) string {
	if !strings.Contains(s, "/.") {
		return s
	}
	var out []string
	for _, part := range strings.Split(strings.TrimPrefix(s, "/"), "/") {
		switch part {
		case ".":
		case "..":
			out = out[:max(len(out)-1, 0)]
		default:
			out = append(out, part)
		}
	}
	return "/" + strings.Join(out, "/")
}

// cleanPath is a path as it is most often meant, in the form that globs are
// written in; ok is false when there is more than one way to read it.
func cleanPath(raw string) (string, bool) {
	all, ok := readings(raw)
	if !ok || len(all) != 1 || slices.ContainsFunc(all[0], func(s string) bool { return strings.Contains(s, "*") }) {
		return "", false
	}
	return path.Join("/", strings.Join(all[0], "/")), true
}
