package gitproto

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestReport is what clients of every kind are told.
func TestReport(t *testing.T) {
	t.Parallel()
	commands := []string{zeros + " " + ones + " refs/heads/main", zeros + " " + ones + " refs/heads/agent/x"}
	for _, tt := range []struct {
		name, caps string
		want       string
	}{
		{"in a side band", " report-status-v2 side-band-64k",
			"003c\x02forage: this sandbox may push to agent/*, refs/tags/v*\n" +
				"00af\x01000eunpack ok\n" +
				"0050ng refs/heads/main forage: not among the refs that this sandbox may push to\n" +
				"0048ng refs/heads/agent/x forage: refused with another ref of this push\n0000" + "0000"},
		{"without one", " report-status", "000eunpack ok\n" +
			"0050ng refs/heads/main forage: not among the refs that this sandbox may push to\n" +
			"0048ng refs/heads/agent/x forage: refused with another ref of this push\n0000"},
		{"without a report", " side-band-64k", "\x03forage: push refused: refs/heads/main: not among the refs that this sandbox may push to\n0000"},
		{"with nothing", "", "ERR forage: push refused: refs/heads/main: not among the refs that this sandbox may push to\n0000"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := Guard(bytes.NewReader(lines(commands[0]+"\x00"+tt.caps, commands[1])), rule)
			var refusal *Refusal
			if !errors.As(err, &refusal) {
				t.Fatal(err)
			}
			contentType, body := refusal.Report()
			if contentType != "application/x-git-receive-pack-result" {
				t.Errorf("the type is %q", contentType)
			}
			got := string(body)
			if !strings.HasPrefix(tt.want, "00") && len(got) > 4 {
				got = got[4:]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
