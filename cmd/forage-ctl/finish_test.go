package main

import "testing"

func TestErrorIsOneLine(t *testing.T) {
	const said = "reaching it: ssh: no such host\r\nfatal: no access.\n\nPlease make sure\n"
	if got, want := oneLine(said), "reaching it: ssh: no such host; fatal: no access.; Please make sure"; got != want {
		t.Errorf("it is %q, not %q", got, want)
	}
}
