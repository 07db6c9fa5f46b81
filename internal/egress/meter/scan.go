package meter

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
)

// Bounds of what is looked at in an answer; what is deeper or longer is skipped.
const (
	maxDepth  = 6
	maxString = 128 // of a key or a model's name
	maxNumber = 32
	// maxTold bounds a number that an answer tells: far more than any model takes,
	// and small enough that sums of it mean something.
	maxTold = 1 << 40
)

// scanner reads along in an answer, in pieces of any size. Its memory is
// bounded, and nothing that it is given makes it fail: what is no JSON tells nothing.
type scanner struct {
	events bool // a stream of server-sent events, each with a JSON text
	begun  bool
	line   lineScan
	json   jsonScan
	told   told
	text   int64 // bytes of what the model said, as they are encoded
}

func (s *scanner) feed(p []byte) {
	if !s.begun {
		p = bytes.TrimLeft(p, " \t\r\n")
		if len(p) == 0 {
			return
		}
		// Some servers give a stream another type.
		s.begun, s.events = true, s.events || p[0] != '{' && p[0] != '['
	}
	if s.events {
		s.line.feed(s, p)
	} else {
		s.json.feed(s, p)
	}
}

// jsonScan is where a scanner is in a JSON text (RFC 8259).
type jsonScan struct {
	depth  int
	frames [maxDepth + 1]frame // from 1, of the objects and arrays that are open

	inString, escaped bool
	isKey, isText     bool   // what the string is
	keep              bool   // whether the string or number is of interest
	kept              []byte // of it, without quotes
	inScalar          bool
}

type frame struct {
	array   bool
	wantKey bool
	key     string
}

// reset begins a new text.
func (j *jsonScan) reset() { *j = jsonScan{kept: j.kept[:0]} }

func (j *jsonScan) feed(s *scanner, p []byte) {
	for len(p) > 0 {
		if j.inString {
			p = j.feedString(s, p)
			continue
		}
		c := p[0]
		p = p[1:]
		switch c {
		case ' ', '\t', '\r', '\n':
			j.endScalar(s)
		case '{', '[':
			j.endScalar(s)
			j.depth++
			if f := j.frame(); f != nil {
				*f = frame{array: c == '[', wantKey: c == '{'}
			}
		case '}', ']':
			j.endScalar(s)
			j.depth = max(j.depth-1, 0)
		case ',':
			j.endScalar(s)
			if f := j.frame(); f != nil {
				f.wantKey, f.key = !f.array, ""
			}
		case ':':
			if f := j.frame(); f != nil {
				f.wantKey = false
			}
		case '"':
			j.beginString()
		default:
			j.scalar(c)
		}
	}
}

// frame is the innermost object or array that is open; nil outside of any, and
// where it is too deep to be of interest.
func (j *jsonScan) frame() *frame {
	if j.depth < 1 || j.depth > maxDepth {
		return nil
	}
	return &j.frames[j.depth]
}

func (j *jsonScan) beginString() {
	f := j.frame()
	j.inString, j.escaped, j.kept = true, false, j.kept[:0]
	j.isKey = f != nil && f.wantKey
	j.keep = j.isKey || f != nil && j.isModel(f.key)
	j.isText = !j.isKey && j.inText()
}

// feedString reads on in a string and returns what is after it.
func (j *jsonScan) feedString(s *scanner, p []byte) []byte {
	n := 0
	for n < len(p) {
		if j.escaped {
			j.escaped = false
			n++
			continue
		}
		next := bytes.IndexAny(p[n:], `"\`)
		if next < 0 {
			break
		}
		n += next
		if p[n] == '"' {
			j.take(s, p[:n])
			j.endString(s)
			return p[n+1:]
		}
		j.escaped = true
		n++
	}
	j.take(s, p)
	return nil
}

func (j *jsonScan) take(s *scanner, piece []byte) {
	if j.isText {
		s.text = add(s.text, int64(len(piece)))
	}
	if j.keep {
		if len(j.kept)+len(piece) > maxString {
			j.keep, j.kept = false, j.kept[:0]
			return
		}
		j.kept = append(j.kept, piece...)
	}
}

func (j *jsonScan) endString(s *scanner) {
	j.inString = false
	if !j.keep {
		if j.isKey {
			j.frame().key = ""
		}
		return
	}
	if bytes.IndexByte(j.kept, '\\') >= 0 {
		text := ""
		_ = json.Unmarshal(append(append([]byte{'"'}, j.kept...), '"'), &text) // what is malformed is empty
		j.kept = append(j.kept[:0], text...)
	}
	switch {
	case j.isKey:
		j.frame().key = keys[string(j.kept)]
	case len(j.kept) > 0:
		s.told.model = string(j.kept)
	}
}

func (j *jsonScan) scalar(c byte) {
	if !j.inScalar {
		j.inScalar, j.kept = true, j.kept[:0]
		j.keep = j.inUsage()
	}
	if j.keep && len(j.kept) < maxNumber {
		j.kept = append(j.kept, c)
	}
}

func (j *jsonScan) endScalar(s *scanner) {
	if !j.inScalar {
		return
	}
	j.inScalar = false
	if !j.keep {
		return
	}
	if number, err := strconv.ParseFloat(string(j.kept), 64); err == nil && number >= 0 {
		path, first := j.path()
		s.told.set(first, path, int64(math.Min(number, maxTold)))
	}
}

// base is the depth of the object that an answer is, which may be in an array of them.
func (j *jsonScan) base() int {
	if j.frames[1].array {
		return 2
	}
	return 1
}

// path names the value that begins here by its keys, with dots between, without a first
// one in which the answer is wrapped; that one is wrapper. "" is what is of no interest.
func (j *jsonScan) path() (path, wrapper string) {
	if j.depth > maxDepth {
		return "", ""
	}
	for d := j.base(); d <= j.depth; d++ {
		f := &j.frames[d]
		switch {
		case f.array || f.key == "":
			return "", ""
		case d == j.base() && d < j.depth && (f.key == "message" || f.key == "response"):
			wrapper = f.key
		case path == "":
			path = f.key
		default:
			path += "." + f.key
		}
	}
	return path, wrapper
}

// topKey is the key of the answer's own object under which this is.
func (j *jsonScan) topKey() string {
	base := j.base()
	if j.depth < base {
		return ""
	}
	key := j.frames[base].key
	if j.depth > base && base < maxDepth && (key == "message" || key == "response") {
		key = j.frames[base+1].key
	}
	return key
}

func (j *jsonScan) inUsage() bool {
	if j.depth > maxDepth {
		return false
	}
	key := j.topKey()
	return key == "usage" || key == "usageMetadata"
}

// inText says whether a string here is something that the model said.
func (j *jsonScan) inText() bool {
	switch j.topKey() {
	case "choices", "delta", "candidates", "content", "output":
		return true
	}
	return false
}

// keys are those that matter; all others are "" to a scanner, so that it keeps nothing of them.
var keys = known("message", "response", "model", "modelVersion",
	"choices", "delta", "candidates", "content", "output",
	"usage", "input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens",
	"cache_creation", "ephemeral_1h_input_tokens",
	"prompt_tokens", "completion_tokens", "input_tokens_details", "prompt_tokens_details", "cached_tokens", "prompt_cache_hit_tokens",
	"usageMetadata", "promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount", "cachedContentTokenCount", "toolUsePromptTokenCount")

func known(names ...string) map[string]string {
	m := make(map[string]string, len(names))
	for _, name := range names {
		m[name] = name
	}
	return m
}

// isModel says whether the value of key, here, is the model's name.
func (j *jsonScan) isModel(key string) bool {
	if key != "model" && key != "modelVersion" {
		return false
	}
	path, _ := j.path()
	return path == key
}
