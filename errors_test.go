package forage

import (
	"errors"
	"fmt"
	"testing"
)

func TestExitCodeFollowsTheKindThroughWrapping(t *testing.T) {
	for _, test := range []struct {
		err  error
		want int
	}{
		{nil, 0},
		{errors.New("anything"), 1},
		{Errorf(ErrNotFound, "no %q", "x"), 2},
		{ErrTemplateNotFound, 3},
		{ErrNoPort, 4},
		{ErrStart, 5},
		{fmt.Errorf("starting: %w", Errorf(ErrUnsupported, "memoryMax")), 6},
		{errors.Join(ErrStart, ErrUnsupported), 6},
		{ErrRefused, 7},
		{WithHint(ErrDenied, "ask"), 8},
		{CheckName("-x"), 64},
	} {
		if got := ExitCode(test.err); got != test.want {
			t.Errorf("ExitCode(%v) = %d, want %d", test.err, got, test.want)
		}
	}
}

func TestKindOfIsTheInverseOfExitCode(t *testing.T) {
	for code := range 70 {
		if kind := KindOf(code); kind != nil && ExitCode(kind) != code {
			t.Errorf("KindOf(%d) = %v, whose exit code is %d", code, kind, ExitCode(kind))
		}
	}
}

func TestHintIsNotPartOfTheText(t *testing.T) {
	err := fmt.Errorf("starting: %w", WithHint(errors.New("it broke"), "mend it"))
	if err.Error() != "starting: it broke" || Hint(err) != "mend it" {
		t.Errorf("got %q with hint %q", err, Hint(err))
	}
	if WithHint(nil, "x") != nil {
		t.Error("a hint made an error of nil")
	}
}

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "a-b-1": true, "0": true,
		"": false, "-a": false, "A": false, "a_b": false, "a/b": false, "..": false, "a\n": false,
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa":  true,
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("CheckName(%q) = %v", name, err)
		}
	}
}
