package policy

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxPath bounds what is judged by its path, in bytes; servers take no longer ones by default.
const maxPath = 8 << 10

// readings are the paths, as segments, that servers may take a path for. A plain path has one. One
// with escaped slashes (acme%2Fsite) has two: servers take those for slashes or not. ok is false
// for every other path that two servers may read differently: with dot segments, empty segments,
// parameters (";"), backslashes, escapes of escapes, control characters, or characters that look
// like others after a server has folded them. Escapes are decoded once; ascii refuses what they
// stand for beyond ASCII.
func readings(raw string, ascii bool) (all [][]string, ok bool) {
	if raw == "" {
		raw = "/"
	}
	if len(raw) > maxPath || raw[0] != '/' {
		return nil, false
	}
	text, ok := decode(raw)
	open := strings.ReplaceAll(text, "%2F", "/")
	if !ok || !utf8.ValidString(text) || !norm.NFKC.IsNormalString(text) || strings.Contains(open, "//") {
		return nil, false
	}
	for _, s := range segments(open) {
		if strings.HasPrefix(s, " ") || strings.HasSuffix(s, " ") || strings.HasSuffix(s, ".") || // some file systems drop those
			strings.ContainsFunc(s, func(r rune) bool { return !plainRune(r) || ascii && r >= utf8.RuneSelf }) {
			return nil, false
		}
	}
	if all = append(all, segments(text)); open != text {
		all = append(all, segments(open))
	}
	return all, true
}

// decode takes away the escapes of a path, but those of slashes. ok is false for escapes of
// escapes, and for what is none.
func decode(raw string) (text string, ok bool) {
	text, err := url.PathUnescape(strings.NewReplacer("%2f", "%252F", "%2F", "%252F").Replace(raw))
	return text, err == nil && !strings.Contains(raw, "%25")
}

// plainRune says whether a character of a segment is the same to every server. Beyond ASCII that
// is a letter, mark or digit that no change of case makes ASCII.
func plainRune(r rune) bool {
	if r < utf8.RuneSelf {
		return !isControl(r) && !strings.ContainsRune(`\;?#`, r)
	}
	if !unicode.In(r, unicode.Letter, unicode.Mark, unicode.Digit) || r == 'ß' || r == 'ẞ' { // those become "ss"
		return false
	}
	return unicode.ToUpper(r) >= utf8.RuneSelf && unicode.ToLower(r) >= utf8.RuneSelf
}

// Readings are the paths that servers may take a path of a request for, for who judges by
// a list of its own; ok is false for a path that can't be judged, and should be refused.
func Readings(raw string) (paths []string, ok bool) {
	all, ok := readings(raw, true)
	for _, segments := range all {
		paths = append(paths, "/"+strings.Join(segments, "/"))
	}
	return paths, ok
}
