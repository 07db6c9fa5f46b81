package main

import (
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/egress"
	"forage/internal/egress/meter"
	"forage/internal/sandbox"
	"forage/internal/supervisor"
	"forage/internal/testdir"
)

func TestTopText(t *testing.T) {
	hostile := "a\x1b[2J\n  b.example  9999\u202e"
	traffic := []sandbox.Traffic{{Sandbox: "work", Running: true, Traffic: supervisor.Traffic{
		Totals:      meter.Totals{Requests: 12, Bytes: 3 << 20, Tokens: 500, Cost: 1.5},
		Bounds:      forage.Traffic{MaxCost: 20, BytesMax: 1 << 30},
		Connections: 2,
		Hosts: []egress.HostTraffic{
			{Host: "api.example.com", Requests: 10, Denied: 1, Open: 2, BytesIn: 5000, BytesOut: 700, Tokens: 500, Cost: 1.5},
			{Host: hostile, Denied: 1},
		},
	}}, {Sandbox: "old", Traffic: supervisor.Traffic{Totals: meter.Totals{Requests: 1}}}}
	before := map[hostOf]egress.HostTraffic{{"work", "api.example.com"}: {BytesIn: 952, BytesOut: 900}}
	want := `work: 12 requests, 2 connections, 3.0 MiB of 1.0 GiB, 500 tokens, $1.50 of $20.00
  HOST                              REQUESTS  DENIED  OPEN  IN       OUT    IN/S     OUT/S  TOKENS  COST
  api.example.com                   10        1       2     4.9 KiB  700 B  2.0 KiB  0 B    500     $1.5000
  a\x1b[2J\n  b.example  9999\u202e  0         1       0     0 B      0 B    -        -      -       -

old: not running, 1 requests, 0 connections, 0 B, 0 tokens, $0.00
`
	got := topText(traffic, before, 2*time.Second)
	squeeze := func(text string) string { return strings.Join(strings.Fields(text), " ") }
	testdir.Same(t, "", squeeze(want), squeeze(got))
	if strings.ContainsAny(got, "\x1b\u202e") || strings.Count(got, "\n") != 6 {
		t.Errorf("a host's name is not escaped: %q", got)
	}
}
