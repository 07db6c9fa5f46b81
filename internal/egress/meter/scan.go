package meter

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
)

// Bounds of what is kept of an answer, in bytes. What is longer is not read, and counts by its
// size.
const (
	maxAnswer = 4 << 20
	maxEvent  = 1 << 20
	maxModel  = 128 // of a model's name
	// maxTold bounds a number that an answer tells: far more than any model takes,
	// and small enough that sums of it mean something.
	maxTold = 1 << 40
)

// scanner reads along in an answer, in pieces of any size. Nothing that it is given makes it fail.
type scanner struct {
	events bool // a stream of server-sent events (HTML, section 9.2.6), each with a JSON text in its field "data"
	begun  bool
	kept   []byte // of the answer, or of the line that is being read
	data   []byte // of the event
	cr     bool   // the last byte was a carriage return, after which a newline ends no other line
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
	if !s.events {
		s.kept = s.keep(s.kept, p, maxAnswer)
		return
	}
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		if end != 0 {
			s.cr = false
		}
		if end < 0 {
			s.kept = s.keep(s.kept, p, maxEvent)
			return
		}
		s.kept = s.keep(s.kept, p[:end], maxEvent)
		if p[end] != '\n' || !s.cr {
			s.endLine()
		}
		s.cr = p[end] == '\r'
		p = p[end+1:]
	}
}

// keep is b with p behind it. What is too long counts by its size.
func (s *scanner) keep(b, p []byte, most int) []byte {
	if len(b)+len(p) > most {
		s.text = add(s.text, int64(len(p)))
		return b
	}
	return append(b, p...)
}

// endLine ends a line; an empty one ends an event.
func (s *scanner) endLine() {
	if len(s.kept) == 0 {
		s.take(s.data)
		s.data = s.data[:0]
	}
	if data, ok := bytes.CutPrefix(s.kept, []byte("data:")); ok {
		s.data = s.keep(s.data, append(data, '\n'), maxEvent)
	}
	s.kept = s.kept[:0]
}

// usage is what the answer has told, at its end.
func (s *scanner) usage() Usage {
	if s.events {
		s.endLine()
		s.kept = s.data
	}
	s.take(s.kept)
	s.kept, s.data = nil, nil
	return s.told.usage()
}

// answer is what matters of an answer, or of one of its events: the fields of Anthropic's
// Messages, OpenAI's Responses and Chat Completions, DeepSeek's, and Gemini's
// GenerateContentResponse.
type answer struct {
	Model        string `json:"model"`
	ModelVersion string `json:"modelVersion"`
	Usage        struct {
		Input      number `json:"input_tokens"`
		CacheRead  number `json:"cache_read_input_tokens"`
		CacheWrite number `json:"cache_creation_input_tokens"`
		Cache      struct {
			Hour number `json:"ephemeral_1h_input_tokens"`
		} `json:"cache_creation"`
		Prompt        number  `json:"prompt_tokens"`
		InputDetails  details `json:"input_tokens_details"`
		PromptDetails details `json:"prompt_tokens_details"`
		CacheHit      number  `json:"prompt_cache_hit_tokens"`
		Output        number  `json:"output_tokens"`
		Completion    number  `json:"completion_tokens"`
	} `json:"usage"`
	Metadata struct {
		Prompt     number `json:"promptTokenCount"`
		Cached     number `json:"cachedContentTokenCount"`
		Tools      number `json:"toolUsePromptTokenCount"`
		Candidates number `json:"candidatesTokenCount"`
		Thoughts   number `json:"thoughtsTokenCount"`
	} `json:"usageMetadata"`
	Choices    json.RawMessage `json:"choices"`
	Delta      json.RawMessage `json:"delta"`
	Candidates json.RawMessage `json:"candidates"`
	Content    json.RawMessage `json:"content"`
	Output     json.RawMessage `json:"output"`
}

type details struct {
	Cached number `json:"cached_tokens"`
}

// wrapped is an answer that may be inside another object.
type wrapped struct {
	answer
	Message  *answer `json:"message"`
	Response *answer `json:"response"`
}

// number is one that an answer tells.
type number float64

// tokens is the number as one of tokens: neither negative nor endless.
func (n number) tokens() int64 {
	return int64(min(max(float64(n), 0), maxTold))
}

// take reads a JSON text: an answer, an event of one, or a list of those. What can't be read
// counts by its size.
func (s *scanner) take(text []byte) {
	var all []wrapped
	text = bytes.TrimSpace(text)
	if !bytes.HasPrefix(text, []byte("[")) {
		text = append(append([]byte{'['}, text...), ']')
	}
	var mistyped *json.UnmarshalTypeError // the rest is there
	if err := json.Unmarshal(text, &all); err != nil && !errors.As(err, &mistyped) {
		if bytes.ContainsRune(text, '{') { // "[DONE]" has none
			s.text = add(s.text, int64(len(text)))
		}
		return
	}
	for _, a := range all {
		s.told.add(&a.answer, false)
		s.text = add(s.text, a.said())
		for _, inner := range []*answer{a.Message, a.Response} {
			if inner != nil {
				s.told.add(inner, inner == a.Message)
				s.text = add(s.text, inner.said())
			}
		}
	}
}

// said is how long what the model said is: the values of the strings, as they are encoded.
func (a *answer) said() (length int64) {
	for _, raw := range [][]byte{a.Choices, a.Delta, a.Candidates, a.Content, a.Output} {
		for len(raw) > 0 {
			start := bytes.IndexByte(raw, '"')
			if start < 0 {
				break
			}
			end := start + 1
			for raw[end] != '"' { // it is well-formed
				if raw[end] == '\\' {
					end++
				}
				end++
			}
			if rest := bytes.TrimLeft(raw[end+1:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
				length += int64(end - start - 1)
			}
			raw = raw[end+1:]
		}
	}
	return length
}

// told are the numbers of an answer, by what they mean. Those of a stream are told again and
// again, each time for the whole answer so far, so that the highest counts.
type told struct {
	model  string
	final  bool // the number of tokens that came out is that of the whole answer
	in     int64
	prompt int64 // in, with what was in the cache
	cached int64 // of prompt
	tools  int64 // in, beside prompt
	out    int64
	think  int64 // out, beside out

	read, write, writeHour int64 // of a cache, beside in
}

// add takes what an answer tells. Anthropic's first event, which is in a message, tells only the
// beginning.
func (t *told) add(a *answer, message bool) {
	for _, model := range []string{a.Model, a.ModelVersion} {
		if model != "" && len(model) <= maxModel {
			t.model = strings.Clone(model)
		}
	}
	u, m := &a.Usage, &a.Metadata
	t.in = max(t.in, u.Input.tokens())
	t.read = max(t.read, u.CacheRead.tokens())
	t.write = max(t.write, u.CacheWrite.tokens())
	t.writeHour = max(t.writeHour, u.Cache.Hour.tokens())
	t.prompt = max(t.prompt, u.Prompt.tokens(), m.Prompt.tokens())
	t.cached = max(t.cached, u.InputDetails.Cached.tokens(), u.PromptDetails.Cached.tokens(), u.CacheHit.tokens(), m.Cached.tokens())
	t.tools = max(t.tools, m.Tools.tokens())
	t.out = max(t.out, u.Output.tokens(), u.Completion.tokens(), m.Candidates.tokens())
	t.think = max(t.think, m.Thoughts.tokens())
	t.final = t.final || !message && u.Output+u.Completion+m.Candidates > 0
}

func (t *told) usage() Usage {
	return Usage{
		Model:          t.model,
		In:             max(t.in+t.prompt-t.cached, 0) + t.tools,
		Out:            t.out + t.think,
		CacheRead:      t.read + min(t.cached, t.in+t.prompt),
		CacheWrite:     max(t.write, t.writeHour),
		CacheWriteHour: t.writeHour,
	}
}
