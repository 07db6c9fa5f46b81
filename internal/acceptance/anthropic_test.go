package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// closingWords is what the mock ends a finished conversation with.
const closingWords = "The file is edited."

// call is one tool call that the mock asks the agent for.
type call struct {
	Tool  string
	Input map[string]any
}

// anthropic is the part of Anthropic's Messages API that Claude Code needs: POST
// /v1/messages, answered as a stream of server-sent events
// (https://docs.anthropic.com/en/docs/build-with-claude/streaming). It hands
// out its script one call at a time and then ends the turn.
type anthropic struct {
	script []call

	mu      sync.Mutex
	results []string // what the tools answered, as JSON
	keys    []string // the x-api-key of every message request
	bodies  []string // of those requests
	shown   credentials

	// accepts says whether a request's credential is good; nil is all of them.
	accepts func(*http.Request) bool
	// during runs once while the agent waits for the answer to a tool's result; nil is nothing.
	during func()
	once   sync.Once
}

// messagesRequest is what the mock reads of a request.
type messagesRequest struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Content json.RawMessage `json:"content"` // a string, or blocks
	} `json:"messages"`
	Tools []struct {
		Name string `json:"name"`
	} `json:"tools"`
}

func (m *anthropic) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.accepts != nil && !m.accepts(r) {
		http.Error(w, `{"type":"error","error":{"type":"authentication_error","message":"OAuth token has been revoked."}}`, http.StatusUnauthorized)
		return
	}
	m.shown.add(r)
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" {
		http.NotFound(w, r)
		return
	}
	var req messagesRequest
	var body bytes.Buffer
	if err := json.NewDecoder(io.TeeReader(r.Body, &body)).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	results := toolResults(req)
	m.mu.Lock()
	m.keys, m.bodies = append(m.keys, r.Header.Get("x-api-key")), append(m.bodies, body.String())
	if len(results) > len(m.results) {
		m.results = results
	}
	m.mu.Unlock()

	if len(results) > 0 && m.during != nil {
		m.once.Do(m.during)
	}

	if !req.Stream {
		writeJSON(w, message(req.Model, []any{map[string]any{"type": "text", "text": "ok"}}, "end_turn"))
		return
	}
	events := newEventStream(w)
	events.start(req.Model)
	if next := len(results); len(req.Tools) > 0 && next < len(m.script) {
		events.toolUse(fmt.Sprintf("toolu_%02d", next), m.script[next])
		events.end("tool_use")
		return
	}
	events.text(closingWords)
	events.end("end_turn")
}

// seen returns the answers of the tools and the keys that were presented.
func (m *anthropic) seen() (results, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.results...), append([]string(nil), m.keys...)
}

// checkTold looks whether the agent's requests have what Forage tells it of the sandbox and of the
// project.
func checkTold(t *testing.T, bodies []string, want ...string) {
	t.Helper()
	for _, body := range bodies {
		if strings.Contains(body, "You work in a Firefly Forage sandbox") {
			for _, w := range want {
				if !strings.Contains(body, w) {
					t.Errorf("what the agent is told does not say %q", w)
				}
			}
			return
		}
	}
	t.Errorf("the agent was told nothing of its sandbox, in %d requests", len(bodies))
}

// toolResults returns the tool_result blocks of a conversation.
func toolResults(req messagesRequest) []string {
	var found []string
	for _, msg := range req.Messages {
		var blocks []json.RawMessage
		if json.Unmarshal(msg.Content, &blocks) != nil {
			continue // a plain string
		}
		for _, block := range blocks {
			var head struct {
				Type string `json:"type"`
			}
			if json.Unmarshal(block, &head) == nil && head.Type == "tool_result" {
				found = append(found, string(block))
			}
		}
	}
	return found
}

func message(model string, content []any, stop string) map[string]any {
	msg := map[string]any{
		"id": "msg_01", "type": "message", "role": "assistant", "model": model,
		"content": content, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	}
	if stop != "" {
		msg["stop_reason"] = stop
	}
	return msg
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // a client that has gone is not the mock's business
}

// eventStream writes server-sent events, each flushed on its own, so that a
// buffering proxy on the way would show.
type eventStream struct {
	w     http.ResponseWriter
	flush func()
	index int
}

func newEventStream(w http.ResponseWriter) *eventStream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	flush := func() {}
	if f, ok := w.(http.Flusher); ok {
		flush = f.Flush
	}
	return &eventStream{w: w, flush: flush}
}

func (s *eventStream) send(kind string, fields map[string]any) {
	fields["type"] = kind
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", kind, data)
	s.flush()
}

func (s *eventStream) start(model string) {
	s.send("message_start", map[string]any{"message": message(model, []any{}, "")})
}

func (s *eventStream) block(content, delta map[string]any) {
	s.send("content_block_start", map[string]any{"index": s.index, "content_block": content})
	s.send("content_block_delta", map[string]any{"index": s.index, "delta": delta})
	s.send("content_block_stop", map[string]any{"index": s.index})
	s.index++
}

func (s *eventStream) text(text string) {
	s.block(map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": text})
}

func (s *eventStream) toolUse(id string, c call) {
	input, err := json.Marshal(c.Input)
	if err != nil {
		panic(err)
	}
	s.block(
		map[string]any{"type": "tool_use", "id": id, "name": c.Tool, "input": map[string]any{}},
		map[string]any{"type": "input_json_delta", "partial_json": string(input)})
}

func (s *eventStream) end(reason string) {
	s.send("message_delta", map[string]any{
		"delta": map[string]any{"stop_reason": reason, "stop_sequence": nil},
		"usage": map[string]any{"output_tokens": 1},
	})
	s.send("message_stop", map[string]any{})
}

// lastBody is the last request for an answer, as it was sent.
func (m *anthropic) lastBody() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.bodies) == 0 {
		return ""
	}
	return m.bodies[len(m.bodies)-1]
}
