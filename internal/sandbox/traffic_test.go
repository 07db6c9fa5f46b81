package sandbox

import "testing"

// TestTrafficWhileOneEnds: one that is starting or ending has used what it has, and is not among
// those that run.
func TestTrafficWhileOneEnds(t *testing.T) {
	s := testService(t)
	_, end := running(t, s)
	if traffic, err := s.Traffic(t.Context(), nil); err != nil || len(traffic) > 0 {
		t.Errorf("those that run: %v, %v", traffic, err)
	}
	if traffic, err := s.Traffic(t.Context(), []string{"box"}); err != nil || len(traffic) != 1 || traffic[0].Running {
		t.Errorf("it by name: %v, %v", traffic, err)
	}
	end()
	if _, err := s.Traffic(t.Context(), []string{"absent"}); err == nil {
		t.Error("one that is not there has traffic")
	}
}
