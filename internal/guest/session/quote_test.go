package session

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShellArguments(t *testing.T) {
	for _, test := range []struct{ argv, want []string }{
		{[]string{"claude"}, []string{"exec 'claude'"}},
		{[]string{"it's"}, []string{`exec 'it'\''s'`}},
		{[]string{"a", "b;", `c\;`, ";", "d;e", ""}, []string{"a", `b\;`, `c\\;`, `\;`, "d;e", ""}},
	} {
		if diff := cmp.Diff(test.want, shellArguments(test.argv)); diff != "" {
			t.Errorf("%q: %s", test.argv, diff)
		}
	}
	if got := escapeFormat("/a#(b)#{c}"); got != "/a##(b)##{c}" {
		t.Error(got)
	}
}
