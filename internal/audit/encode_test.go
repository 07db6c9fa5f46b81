package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
	"unicode/utf8"
)

// byTheLibrary is what a line is by its definition: encoding/json's, with what is not ASCII escaped.
func byTheLibrary(e Event) (string, error) {
	e.Hash = ""
	raw, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	var line []byte
	for len(raw) > 0 {
		r, size := utf8.DecodeRune(raw)
		switch {
		case r < 0x7f:
			line = append(line, byte(r))
		case r > 0xffff:
			r -= 0x10000
			line = fmt.Appendf(line, `\u%04x\u%04x`, 0xd800+(r>>10), 0xdc00+(r&0x3ff))
		default:
			line = fmt.Appendf(line, `\u%04x`, r)
		}
		raw = raw[size:]
	}
	sum := sha256.Sum256(line)
	return string(line[:len(line)-2]) + hex.EncodeToString(sum[:]) + `"}`, nil
}

func checkLine(t *testing.T, e Event) {
	t.Helper()
	want, wantErr := byTheLibrary(e)
	got, err := appendLine([]byte("before"), &e)
	if (err != nil) != (wantErr != nil) {
		t.Fatalf("%+v: error %v, encoding/json's %v", e, err, wantErr)
	}
	if err == nil && string(got) != "before"+want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

// Lines are what encoding/json makes of events, byte for byte: whatever text, numbers and times are in them.
func TestLinesAreJSON(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 0)) // FuzzLinesAreJSON looks for others
	pieces := []string{"", "plain", "\"", "\\", "<&>", "\x00\x1f\b\f\n\r\t\v", "\x7f", "é\u202e\u2028\u2029\ufffd", "😀\U0010ffff", "\xff", "\xed\xa0\x80", "\xf0\x9f"}
	text := func() (s string) {
		for range r.IntN(4) {
			s += pieces[r.IntN(len(pieces))]
		}
		return s
	}
	number := func() int64 {
		return []int64{0, 0, 1, -1, 443, math.MaxInt64, math.MinInt64, r.Int64()}[r.IntN(8)]
	}
	cost := func() float64 {
		return []float64{0, 0, math.Copysign(0, -1), 0.1, 1e-7, 1e21, -3.25, math.Inf(1), math.NaN(), r.NormFloat64()}[r.IntN(10)]
	}
	for range 5000 {
		zone := time.FixedZone("", []int{0, 3600, -19800, 90000}[r.IntN(4)])
		when := []time.Time{{}, time.Unix(r.Int64N(1<<34), r.Int64N(1e9)), time.Unix(1, 5e8), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}[r.IntN(4)].In(zone)
		checkLine(t, Event{
			Seq: r.Uint64(), Time: when, Sandbox: text(), Kind: Kind(text()), Verdict: text(), Host: text(), Port: uint16(number()),
			Method: text(), Path: text(), Rule: text(), Reason: text(), Status: int(number()), Millis: number(), Secret: text(), Model: text(),
			TokensIn: number(), TokensOut: number(), Cost: cost(), Monitored: r.IntN(2) == 0, BytesIn: number(), BytesOut: number(), Prev: text(), Hash: text(),
		})
	}
}

func FuzzLinesAreJSON(f *testing.F) {
	f.Add("/a?\x7f<é😀>", int64(-1), 1e-7, uint64(3))
	f.Fuzz(func(t *testing.T, text string, number int64, cost float64, seq uint64) {
		checkLine(t, Event{Seq: seq, Sandbox: text, Path: text, Reason: text, BytesIn: number, Cost: cost, Time: time.Unix(number%(1<<36), number%1e9).UTC()})
	})
}
