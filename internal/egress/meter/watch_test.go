package meter

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

const (
	anthropicJSON = `{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-5-20250929","content":[{"type":"text","text":"the \"usage\":{\"output_tokens\":9999} is small \\"}],
 "stop_reason":"end_turn","usage":{"input_tokens":12,"cache_creation_input_tokens":300,"cache_read_input_tokens":4000,"cache_creation":{"ephemeral_5m_input_tokens":200,"ephemeral_1h_input_tokens":100},"output_tokens":7,"service_tier":"standard"}}`
	anthropicStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"claude-opus-4-5\",\"content\":[],\"usage\":{\"input_tokens\":25,\"cache_read_input_tokens\":100,\"output_tokens\":1}}}\n\n" +
		"event: ping\ndata: {\"type\": \"ping\"}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"data: usage 0123456789012345678901234567\"}}\n\n"
	anthropicSSE = anthropicStart + "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n" +
		"event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	chatJSON   = `{"id":"c","object":"chat.completion","model":"gpt-4o-2024-08-06","choices":[{"index":0,"message":{"role":"assistant","content":"hi","usage":{"prompt_tokens":1}}}],"usage":{"prompt_tokens":1200,"completion_tokens":40,"total_tokens":1240,"prompt_tokens_details":{"cached_tokens":1024},"completion_tokens_details":{"reasoning_tokens":32}}}`
	chatChunks = "data: {\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}],\"usage\":null}\n\n" +
		"data: {\"model\":\"gpt-4o\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hello, this is a text.\"}}],\"usage\":null}\n\n"
	chatSSE       = chatChunks + "data: {\"model\":\"gpt-4o\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":3}}\n\ndata: [DONE]\n\n"
	responsesJSON = `{"id":"r","model":"gpt-5-codex","output":[{"content":[{"type":"output_text","text":"x"}]}],"usage":{"input_tokens":100,"input_tokens_details":{"cached_tokens":60},"output_tokens":20,"output_tokens_details":{"reasoning_tokens":16},"total_tokens":120}}`
	responsesSSE  = "event: response.created\r\ndata: {\"type\":\"response.created\",\"response\":{\"model\":\"gpt-5\",\"usage\":null}}\r\n\r\n" +
		"event: response.output_text.delta\r\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hello\"}\r\n\r\n" +
		"event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"model\":\"gpt-5\",\"output\":[{\"content\":[{\"text\":\"Hello\"}]}],\"usage\":{\"input_tokens\":10,\"input_tokens_details\":{\"cached_tokens\":0},\"output_tokens\":5}}}\r\n\r\n"
	geminiJSON   = `{"candidates":[{"content":{"parts":[{"text":"hi"}]}}],"usageMetadata":{"promptTokenCount":50,"candidatesTokenCount":6,"thoughtsTokenCount":30,"cachedContentTokenCount":20,"toolUsePromptTokenCount":5,"totalTokenCount":91,"promptTokensDetails":[{"modality":"TEXT","tokenCount":50}]},"modelVersion":"gemini-2.5-flash"}`
	geminiStream = "[{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":1},\"modelVersion\":\"gemini-3-pro-preview\"}\r\n,\r\n" +
		"{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"b\"}]}}],\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":4,\"thoughtsTokenCount\":2},\"modelVersion\":\"gemini-3-pro-preview\"}]"
	geminiSSE = "data: {\"response\":{\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"a\"}]}}],\"usageMetadata\":{\"promptTokenCount\":8,\"candidatesTokenCount\":4},\"modelVersion\":\"gemini-2.5-pro\"}}\n\n"
)

var answers = []struct {
	name, kind, body string
	want             Usage // the zero Usage tells nothing
}{
	{"anthropic", "application/json", anthropicJSON, Usage{Model: "claude-sonnet-4-5-20250929", In: 12, Out: 7, CacheRead: 4000, CacheWrite: 300, CacheWriteHour: 100}},
	{"anthropic stream", "text/event-stream; charset=utf-8", anthropicSSE, Usage{Model: "claude-opus-4-5", In: 25, Out: 15, CacheRead: 100}},
	{"openai chat", "application/json", chatJSON, Usage{Model: "gpt-4o-2024-08-06", In: 176, Out: 40, CacheRead: 1024}},
	{"openai chat stream", "text/event-stream", chatSSE, Usage{Model: "gpt-4o", In: 9, Out: 3}},
	{"openai responses", "application/json", responsesJSON, Usage{Model: "gpt-5-codex", In: 40, Out: 20, CacheRead: 60}},
	{"openai responses stream", "text/event-stream", responsesSSE, Usage{Model: "gpt-5", In: 10, Out: 5}},
	{"gemini", "application/json; charset=UTF-8", geminiJSON, Usage{Model: "gemini-2.5-flash", In: 35, Out: 36, CacheRead: 20}},
	{"gemini array", "application/json", geminiStream, Usage{Model: "gemini-3-pro-preview", In: 8, Out: 6}},
	{"gemini wrapped stream", "text/event-stream", geminiSSE, Usage{Model: "gemini-2.5-pro", In: 8, Out: 4}},
	{"a stream with a wrong type", "application/json", anthropicSSE, Usage{Model: "claude-opus-4-5", In: 25, Out: 15, CacheRead: 100}},
	{"embeddings", "application/json", `{"object":"list","model":"text-embedding-3-small","usage":{"prompt_tokens":8,"total_tokens":8}}`, Usage{Model: "text-embedding-3-small", In: 8}},
	{"escaped keys", "application/json", `{"us\u0061ge":{"output\u005ftokens":5}}`, Usage{Out: 5}},
	{"an error", "application/json", `{"type":"error","error":{"type":"rate_limit_error","message":"usage"}}`, Usage{}},
	{"a page", "text/html", `<script>{"usage":{"output_tokens":5}}</script>`, Usage{}},
	{"empty", "application/json", "", Usage{}},

	// Forms of an answer that a client can ask for, to get round the budget: by their size.
	{"a callback", "text/javascript; charset=UTF-8", "// API callback\ncb(" + geminiJSON + ");", Usage{In: 100, Out: 84, Estimated: true}},
	{"protobuf", "application/x-protobuf", strings.Repeat("x", 40), Usage{In: 100, Out: 10, Estimated: true}},
	{"gRPC", "application/grpc+proto", strings.Repeat("x", 40), Usage{In: 100, Out: 10, Estimated: true}},

	// A stream that doesn't tell is estimated: 22 bytes of text and the role's 9 out, 400 of the
	// request in.
	{"a chat stream without use", "text/event-stream", chatChunks + "data: [DONE]\n\n", Usage{Model: "gpt-4o", In: 100, Out: 8, Estimated: true}},
	{"a stream that was cut", "text/event-stream", anthropicStart, Usage{Model: "claude-opus-4-5", In: 25, Out: 13, CacheRead: 100, Estimated: true}},

	// A server may say what it likes: nothing becomes negative, nothing wraps around.
	{"negative", "application/json", `{"usage":{"input_tokens":-5,"output_tokens":-9223372036854775808,"cache_read_input_tokens":3}}`, Usage{CacheRead: 3}},
	{"huge", "application/json", `{"usage":{"input_tokens":99999999999999999999,"output_tokens":1e300,"cache_read_input_tokens":1e999}}`, Usage{In: maxTold, Out: maxTold}},
	{"no numbers", "application/json", `{"usage":{"input_tokens":"12","output_tokens":[1],"cache_read_input_tokens":{},"prompt_tokens":true,"completion_tokens":null}}`, Usage{}},
	{"more cached than sent", "application/json", `{"usage":{"prompt_tokens":10,"prompt_tokens_details":{"cached_tokens":99},"completion_tokens":1}}`, Usage{Out: 1, CacheRead: 10}},
	{"elsewhere", "application/json", `{"data":[{"usage":{"output_tokens":5},"model":"a"}],"metadata":{"model":"b","usage":{"output_tokens":6}},"message":{"x":{"model":"c"}},"usage":[{"output_tokens":7}],"usagex":{"output_tokens":8}}`, Usage{}},
	{"malformed", "application/json", `{"usage":{"output_tokens":5}]]]]}{,:"`, Usage{In: 100, Out: 10, Estimated: true}},
	{"a bad event between", "text/event-stream", "data: {\"x\":\"never ends\n\ndata: }]}\n\n" + anthropicSSE, Usage{Model: "claude-opus-4-5", In: 25, Out: 15, CacheRead: 100}},
	{"an event in two lines", "text/event-stream", "id: 7\ndata: {\"usage\":\ndata: {\"output_tokens\":5}}\n\n", Usage{Out: 5}},
	{"carriage returns", "text/event-stream", "data: {\"usage\":\rdata:{\"output_tokens\":5}}\r\rdata:{}\r\r", Usage{Out: 5}},
	{"a field of another name", "text/event-stream", "dataset: {\"usage\":{\"output_tokens\":5}}\n\n", Usage{}},
	{"deep", "application/json", strings.Repeat(`{"a":[`, 100_000) + `{"usage":{"output_tokens":5}}`, Usage{In: 100, Out: 150_008, Estimated: true}},
	{"after something deep", "application/json", `{"a":` + strings.Repeat(`[`, 1000) + strings.Repeat(`]`, 1000) + `,"usage":{"output_tokens":5}}`, Usage{Out: 5}},
}

// answerOf is one of a server, to a request with a body of 400 bytes.
func answerOf(kind string, body io.Reader) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(body),
		Request: &http.Request{Method: http.MethodPost, URL: &url.URL{Scheme: "https", Host: "api.example.com:443"}, ContentLength: 400}}
}

// watch reads an answer to its end and returns what was told: nothing, or one Usage.
func watch(t *testing.T, res *http.Response) Usage {
	t.Helper()
	var got []Usage
	Watch(res, func(u Usage) { got = append(got, u) })
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	if err := res.Body.Close(); err != nil {
		t.Error(err)
	}
	switch len(got) {
	case 0:
		return Usage{}
	case 1:
		if got[0].Host != "api.example.com" {
			t.Errorf("of host %q", got[0].Host)
		}
		got[0].Host = ""
		return got[0]
	}
	t.Fatalf("told %d times: %v", len(got), got)
	return Usage{}
}

func TestWatch(t *testing.T) {
	for _, tt := range answers {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, watch(t, answerOf(tt.kind, strings.NewReader(tt.body)))); diff != "" {
				t.Errorf("in one piece: %s", diff)
			}
			if diff := cmp.Diff(tt.want, watch(t, answerOf(tt.kind, iotest.OneByteReader(strings.NewReader(tt.body))))); diff != "" {
				t.Errorf("byte by byte: %s", diff)
			}
			if len(tt.body) > 5000 {
				return
			}
			for at := range len(tt.body) {
				body := io.MultiReader(strings.NewReader(tt.body[:at]), strings.NewReader(tt.body[at:]))
				if diff := cmp.Diff(tt.want, watch(t, answerOf(tt.kind, body))); diff != "" {
					t.Fatalf("split at byte %d: %s", at, diff)
				}
			}
		})
	}
}

// A client that leaves before the end pays for what it has read, and for what the model has.
func TestWatchClientLeaves(t *testing.T) {
	for _, tt := range []struct {
		name, kind, body string
		read             int
		want             Usage
	}{
		{"before anything", "text/event-stream", anthropicSSE, 0, Usage{In: 100, Estimated: true}},
		{"in the text", "text/event-stream", anthropicSSE, len(anthropicStart), Usage{Model: "claude-opus-4-5", In: 25, Out: 13, CacheRead: 100, Estimated: true}},
		{"at the end", "text/event-stream", anthropicSSE, len(anthropicSSE), Usage{Model: "claude-opus-4-5", In: 25, Out: 15, CacheRead: 100}},
		{"in an answer", "application/json", anthropicJSON, strings.Index(anthropicJSON, `}],`), Usage{In: 100, Out: 44, Estimated: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := answerOf(tt.kind, strings.NewReader(tt.body))
			var got Usage
			Watch(res, func(u Usage) { got = u })
			io.ReadFull(res.Body, make([]byte, tt.read))
			res.Body.Close()
			got.Host = ""
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWatchOther(t *testing.T) {
	encoded := answerOf("application/json", strings.NewReader(strings.Repeat("x", 40)))
	encoded.Header.Set("Content-Encoding", "br")
	if diff := cmp.Diff(Usage{In: 100, Out: 10, Estimated: true}, watch(t, encoded)); diff != "" {
		t.Errorf("an encoded answer: %s", diff)
	}
	get := answerOf("text/event-stream", strings.NewReader(chatChunks))
	get.Request.Method = http.MethodGet
	if got := watch(t, get); got != (Usage{Model: ""}) {
		t.Errorf("what is looked up is no use: %+v", got)
	}
	res := answerOf("application/json", nil)
	res.Body, res.StatusCode = http.NoBody, http.StatusNoContent
	Watch(res, nil)
	if res.Body != http.NoBody {
		t.Error("no body became one")
	}
}

// However long what a server sends is, what is kept of it is bounded.
func TestScannerMemory(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	for name, body := range map[string]string{"answer": `{"` + long + `":1}`, "line": long, "data": "data: " + long, "lines": "data: " + long + "\n"} {
		s := scanner{events: name != "answer"}
		for range 8 {
			s.feed([]byte(body))
		}
		if kept := len(s.kept) + len(s.data); kept > maxAnswer || s.text < 2<<20 {
			t.Errorf("%s: %d bytes are kept, %d counted", name, kept, s.text)
		}
	}
}

// FuzzScan holds that no answer makes a scanner fail, that pieces don't matter and that nothing
// is negative.
func FuzzScan(f *testing.F) {
	for _, a := range answers {
		if len(a.body) < 5000 {
			f.Add([]byte(a.body), strings.Contains(a.kind, "event"), 7)
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, events bool, size int) {
		whole, pieces := scanner{events: events}, scanner{events: events}
		whole.feed(body)
		size = max(size&63, 1)
		for p := bytes.Clone(body); len(p) > 0; p = p[min(size, len(p)):] {
			pieces.feed(p[:min(size, len(p))])
		}
		if diff := cmp.Diff(whole.usage(), pieces.usage()); diff != "" || whole.text != pieces.text {
			t.Errorf("in pieces of %d: %s", size, diff)
		}
		u := whole.usage()
		if u.In < 0 || u.Out < 0 || u.CacheRead < 0 || u.CacheWrite < u.CacheWriteHour || u.Tokens() < 0 || priceOf(u) < 0 {
			t.Errorf("%+v", u)
		}
		if len(u.Model) > maxModel {
			t.Errorf("%d bytes of a model's name", len(u.Model))
		}
	})
}
