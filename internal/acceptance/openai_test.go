package acceptance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// openai is the part of OpenAI's Responses API that Codex needs: POST
// /v1/responses, answered as a stream of server-sent events
// (https://platform.openai.com/docs/api-reference/responses-streaming). It asks for
// one shell command and then ends the turn.
type openai struct {
	command string

	mu      sync.Mutex
	outputs []string // what the command printed, as JSON
	keys    []string // the authorization of every request for an answer
	bodies  []string // of those requests
	shown   credentials

	// accepts says whether a request's credential is good; nil is all of them.
	accepts func(*http.Request) bool
	// during runs once while the agent waits for the answer to the command's output; nil is
	// nothing.
	during func()
	once   sync.Once
}

// responsesRequest is what the mock reads of a request.
type responsesRequest struct {
	Input []struct {
		Type   string          `json:"type"`
		Output json.RawMessage `json:"output"`
	} `json:"input"`
}

func (m *openai) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.accepts != nil && !m.accepts(r) {
		http.Error(w, `{"error":{"code":"token_revoked","message":"Encountered invalidated oauth token for user"}}`, http.StatusUnauthorized)
		return
	}
	m.shown.add(r)
	if strings.HasSuffix(r.URL.Path, "/wham/accounts/check") {
		writeJSON(w, routing(r.Header.Get("ChatGPT-Account-Id")))
		return
	}
	if r.Header.Get("Upgrade") == "websocket" { // so that it falls back to plain requests at once
		http.Error(w, "no WebSocket here", http.StatusUpgradeRequired)
		return
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		http.NotFound(w, r)
		return
	}
	var req responsesRequest
	var body bytes.Buffer
	if err := json.NewDecoder(io.TeeReader(plainBody(r), &body)).Decode(&req); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answered := m.remember(r, req, body.String())
	if answered && m.during != nil {
		m.once.Do(m.during)
	}

	events := newEventStream(w)
	events.send("response.created", map[string]any{"response": map[string]any{"id": "resp_01"}})
	item := map[string]any{"type": "message", "role": "assistant", "id": "msg_01",
		"content": []any{map[string]any{"type": "output_text", "text": closingWords}}}
	if !answered {
		item = m.shellCall()
	}
	events.send("response.output_item.done", map[string]any{"item": item})
	events.send("response.completed", map[string]any{"response": map[string]any{"id": "resp_01",
		"usage": map[string]any{"input_tokens": 1, "output_tokens": 1, "total_tokens": 2,
			"input_tokens_details": nil, "output_tokens_details": nil}}})
}

// remember keeps what the test asks for, and reports whether the command has been answered.
func (m *openai) remember(r *http.Request, req responsesRequest, body string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys, m.bodies = append(m.keys, r.Header.Get("Authorization")), append(m.bodies, body)
	answered := false
	for _, item := range req.Input {
		if strings.HasSuffix(item.Type, "_call_output") {
			m.outputs = append(m.outputs, string(item.Output))
			answered = true
		}
	}
	return answered
}

// shellCall asks for the command the way Codex has its model do it: a script
// that calls the shell tool.
func (m *openai) shellCall() map[string]any {
	argument, err := json.Marshal(map[string]string{"cmd": m.command})
	if err != nil {
		panic(err) // strings always marshal
	}
	return map[string]any{"type": "custom_tool_call", "id": "ctc_01", "call_id": "call_01", "name": "exec",
		"input": fmt.Sprintf("const result = await tools.exec_command(%s); text(result);", argument)}
}

// seen returns what the command printed and the authorizations that were presented.
func (m *openai) seen() (outputs, keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.outputs...), append([]string(nil), m.keys...)
}

// routing is what ChatGPT tells Codex of the account before it lets it work.
func routing(account string) map[string]any {
	return map[string]any{
		"accounts": []any{map[string]any{"id": account, "name": "mock", "structure": "personal",
			"workspace_backend_origin": "https://" + chatGPTHost, "account_routing_override": "NO_CONSTRAINT"}},
		"account_ordering": []any{account}, "default_account_id": account,
	}
}

// plainBody is the body of a request, which Codex compresses for ChatGPT.
func plainBody(r *http.Request) io.Reader {
	if r.Header.Get("Content-Encoding") != "zstd" {
		return r.Body
	}
	plain, err := zstd.NewReader(r.Body)
	if err != nil {
		return strings.NewReader(err.Error()) // not the JSON that is expected
	}
	return plain.IOReadCloser()
}

// lastBody is the last request for an answer, as it was sent.
func (m *openai) lastBody() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.bodies) == 0 {
		return ""
	}
	return m.bodies[len(m.bodies)-1]
}
