package egress

import (
	"net"
	"testing"

	"forage/internal/audit"
	"forage/internal/policy"
)

// What a change of the policy has ended is recorded as what it was, also when its connection has asked for
// something else before that is written down.
func TestEndedClaimIsRecordedAsItself(t *testing.T) {
	w := newWorld(t, mustPolicy(t, "restricted", "first.example", "second.example"), nil)
	client, _ := net.Pipe()
	f := newFlow(w.engine, client)
	c, err := f.judge(policy.Request{Host: "first.example", Port: 443}, audit.Event{Kind: audit.Connect})
	if err != nil {
		t.Fatal(err)
	}
	w.engine.mu.Lock()
	w.engine.policy = mustPolicy(t, "restricted", "second.example")
	w.engine.mu.Unlock()
	record := c.judgeAgain()
	if record == nil {
		t.Fatal("what the policy does not allow any more was not ended")
	}
	if _, err := f.judge(policy.Request{Host: "second.example", Port: 443}, audit.Event{Kind: audit.Connect}); err != nil {
		t.Fatal(err)
	}
	record()
	events := w.log.all()
	if last := events[len(events)-1]; last.Verdict != "deny" || last.Host != "first.example" {
		t.Errorf("the end of the connection to first.example was recorded as %+v", last)
	}
}
