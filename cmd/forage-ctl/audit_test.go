package main

import (
	"testing"
	"time"
)

func TestParseSince(t *testing.T) {
	now := time.Date(2026, 3, 10, 12, 0, 0, 0, time.FixedZone("there", 3600))
	for text, want := range map[string]string{
		"90s": "2026-03-10T11:58:30+01:00", "2h": "2026-03-10T10:00:00+01:00", "3d": "2026-03-07T12:00:00+01:00",
		"11:30": "2026-03-10T11:30:00+01:00", "13:00": "2026-03-09T13:00:00+01:00",
		"2026-01-15": "2026-01-15T00:00:00+01:00", "2026-01-15 10:30": "2026-01-15T10:30:00+01:00",
		"2026-01-15T10:30:00Z": "2026-01-15T10:30:00Z",
		"":                     "", "soon": "", "-5m": "", "5": "", "25:00": "", "2026-13-01": "",
	} {
		at, ok := parseSince(text, now)
		if got := at.Format(time.RFC3339); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %s, %v, want %s", text, got, ok, want)
		}
	}
}
