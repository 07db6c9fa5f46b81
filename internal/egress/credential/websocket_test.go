package credential

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// pipe is a connection from which text comes in pieces.
type pipe struct {
	pieces
	written bytes.Buffer
}

func (p *pipe) Write(b []byte) (int, error) { return p.written.Write(b) }
func (p *pipe) Close() error                { return nil }

// frame is a frame from a server; first is its first byte.
func frame(first byte, payload string) []byte {
	head := []byte{first}
	switch n := len(payload); {
	case n < 126:
		head = append(head, byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 127), uint64(n))
	}
	return append(head, payload...)
}

// conversation is text as frames of a server, split at random, with control frames in between, and the same
// with what a client may see of it.
func conversation(random *rand.Rand, n *needles, messages []string) (sent, want []byte) {
	for _, message := range messages {
		hidden := model(n, message)
		first := byte(0x01)
		for start := 0; ; {
			end := min(len(message), start+random.IntN(1+len(message)))
			if random.IntN(4) == 0 {
				end = len(message)
			}
			if end == len(message) {
				first |= 0x80
			}
			sent = append(sent, frame(first, message[start:end])...)
			want = append(want, frame(first, hidden[start:end])...)
			if first&0x80 != 0 {
				break
			}
			if random.IntN(3) == 0 {
				ping := n.texts[0][:min(len(n.texts[0]), random.IntN(100))]
				sent = append(sent, frame(0x89, ping)...)
				want = append(want, frame(0x89, model(n, ping))...)
			}
			start, first = end, 0
		}
	}
	return sent, want
}

func TestWebSocketMessagesAreRedactedHoweverTheyAreSplit(t *testing.T) {
	n := newNeedles([]string{"abcabd", "bcaXcabd", "zzzzzzzz"})
	random := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var messages []string
		for range 1 + random.IntN(3) {
			text := make([]byte, random.IntN(200))
			for i := range text {
				text[i] = "abcdXz"[random.IntN(6)]
			}
			messages = append(messages, string(text)+n.texts[random.IntN(len(n.texts))])
		}
		sent, want := conversation(random, n, messages)
		size := 1 + random.IntN(60)
		w := &webSocket{ReadWriteCloser: &pipe{pieces: pieces{string(sent), func() int { return random.IntN(size) }}}, needles: n}
		got, err := io.ReadAll(w)
		if err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%q became %q, want %q (%v)", sent, got, want, err)
		}
	}
}

func TestLargeFramesPass(t *testing.T) {
	n := newNeedles([]string{theValue})
	text := strings.Repeat("0123456789", 20000)
	sent := append(frame(0x82, text+theValue), frame(0x82, text[:300])...)
	want := append(frame(0x82, text+strings.Repeat("*", len(theValue))), frame(0x82, text[:300])...)
	got, err := io.ReadAll(&webSocket{ReadWriteCloser: &pipe{pieces: pieces{string(sent), func() int { return 10000 }}}, needles: n})
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %d bytes, want %d (%v)", len(got), len(want), err)
	}
}

func TestFramesThatAreNotAsTheyShouldBeEndTheConnection(t *testing.T) {
	n := newNeedles([]string{theValue})
	for name, sent := range map[string]string{
		"masked":               "\x81\x81\x00\x00\x00\x00a",
		"extension":            "\xc1\x01a",
		"long control":         string(frame(0x89, strings.Repeat("a", 126))),
		"control in pieces":    "\x09\x00",
		"continues nothing":    "\x80\x01a",
		"begins within":        "\x01\x01a\x01\x01b",
		"unknown":              "\x83\x01a",
		"hides between frames": string(frame(0x01, theValue[:9])) + strings.Repeat(string(frame(0x00, "")), 50000),
	} {
		w := &webSocket{ReadWriteCloser: &pipe{pieces: pieces{sent, func() int { return 1000 }}}, needles: n}
		if got, err := io.ReadAll(w); !errors.Is(err, errFrame) {
			t.Errorf("%s: read %d bytes, %v", name, len(got), err)
		}
	}
}

func TestAConnectionThatIsCutShowsNoSecret(t *testing.T) {
	n := newNeedles([]string{theValue})
	for name, sent := range map[string]string{
		"in a message":       "\x01\x7e\xff\xff" + theValue + theValue[:5],
		"in a control frame": "\x89\x7d" + theValue,
	} {
		w := &webSocket{ReadWriteCloser: &pipe{pieces: pieces{sent, func() int { return 7 }}}, needles: n}
		if got, err := io.ReadAll(w); err != nil || len(got) != len(sent) || leaks(string(got)) {
			t.Errorf("%s: read %q, %v", name, got, err)
		}
	}
}

func FuzzWebSocket(f *testing.F) {
	f.Add([]byte("\x81\x05hello"), uint8(3))
	f.Add(frame(0x01, "secret-"), uint8(1))
	f.Add(append(frame(0x01, "secret-"), frame(0x80, "value")...), uint8(2))
	f.Add(append(frame(0x01, "secret-"), append(frame(0x89, "secret-value"), frame(0x80, "value")...)...), uint8(5))
	n := newNeedles([]string{"secret-value"})
	f.Fuzz(func(t *testing.T, sent []byte, size uint8) {
		w := &webSocket{ReadWriteCloser: &pipe{pieces: pieces{string(sent), func() int { return int(size) }}}, needles: n}
		got, err := io.ReadAll(w)
		if err == nil && len(got) != len(sent) || len(got) > len(sent) {
			t.Fatalf("%d bytes became %d", len(sent), len(got))
		}
		whole := &webSocket{ReadWriteCloser: &pipe{pieces: pieces{string(sent), func() int { return len(sent) }}}, needles: n}
		if again, other := io.ReadAll(whole); (err == nil) != (other == nil) || err == nil && !bytes.Equal(got, again) {
			t.Fatalf("in pieces: %q (%v), as a whole: %q (%v)", got, err, again, other)
		}
		if bytes.HasPrefix(sent, []byte{0x81, byte(len(sent) - 2)}) && len(sent) < 120 && bytes.Contains(got, []byte("secret-value")) {
			t.Fatalf("%q became %q", sent, got)
		}
	})
}
