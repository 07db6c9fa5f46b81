package sniff

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func TestBudget(t *testing.T) {
	b := NewBudget(10000)
	one, two := b.Share(), b.Share()
	for i, step := range []struct {
		share *Share
		bytes int
		ok    bool
	}{
		{one, free, true}, {two, free, true}, {one, free + 6000, true}, {two, free + 4001, false}, {two, free + 4000, true},
		{one, free + 6001, false}, {one, free + 1000, true}, {two, free + 9000, true}, {one, free + 1001, false},
	} {
		if err := step.share.Hold(step.bytes); (err == nil) != step.ok {
			t.Errorf("step %d: %v", i, err)
		}
	}
	two.Close()
	if err := one.Hold(free + 10000); err != nil {
		t.Errorf("what was given back is missing: %v", err)
	}
	one.Close()
	if err := two.Hold(free + 1); err == nil {
		t.Error("a share holds something after its end")
	}
	if b.left != 10000 {
		t.Errorf("%d bytes are left", b.left)
	}
	var none *Share
	if err := none.Hold(1 << 30); err != nil {
		t.Error(err)
	}
	none.Close()
}

// Long heads are held within the budget, and what they held is given back when they have passed.
func TestGateWithinABudget(t *testing.T) {
	b := NewBudget(2 * maxHead)
	head := "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 20<<10) + "\r\n\r\n"
	gates := make([]*Gate, 8)
	refused := 0
	for i := range gates {
		gates[i] = NewGate(io.MultiReader(strings.NewReader(head[:len(head)-1]), iotest.ErrReader(io.ErrNoProgress)), nil, func(Head) error { return nil })
		gates[i].Bound(b.Share())
		var limit *Error
		if err := gates[i].Await(); err == nil {
			_, err = gates[i].Read(make([]byte, 1))
			if errors.As(err, &limit) && limit.Rule == "heads-limit" {
				refused++
			}
		}
	}
	if refused == 0 || refused == len(gates) || b.left < 0 {
		t.Errorf("%d of %d were refused, %d bytes are left", refused, len(gates), b.left)
	}
	for _, g := range gates {
		g.share.Close()
	}
	if b.left != 2*maxHead {
		t.Errorf("%d bytes are left", b.left)
	}
	g := NewGate(strings.NewReader(head+head), nil, func(Head) error { return nil })
	g.Bound(b.Share())
	if err := g.Await(); err != nil {
		t.Error(err)
	}
	if passed, err := io.ReadAll(g); string(passed) != head+head || err != nil {
		t.Errorf("%d bytes passed, %v", len(passed), err)
	}
	if b.left != 2*maxHead {
		t.Errorf("%d bytes are held of what has passed", 2*maxHead-b.left)
	}
}

func TestAwait(t *testing.T) {
	for text, want := range map[string]error{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n": nil,
		"junk\r\n":                          nil, // refused by Read
		"GET / HTTP/1.1\r\n":                io.ErrUnexpectedEOF,
		"":                                  io.EOF,
	} {
		g := NewGate(iotest.OneByteReader(strings.NewReader(text)), nil, func(Head) error { return nil })
		if err := g.Await(); err != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}
