package jjrepo

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What jj says in the jail may be anything: nothing of it may be more than an id to git.
func TestParseHeads(t *testing.T) {
	a, b, root := strings.Repeat("a", 40), strings.Repeat("b", 40), strings.Repeat("0", 40)
	got, err := parseHeads(a + "\tnamed here copies \t" + b + " " + root + "\n" + root + "\t\t\n")
	want := []head{{id: a, parents: []string{b}, named: true, here: true, copies: true}, {id: root}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(head{})); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, bad := range []string{"x\n", "\n", "--all\t\t\n", a + "\t\t--all\n", a + "\t\n", a[1:] + "\t\t\n", strings.ToUpper(a) + "\t\t\n", a + "\t\t\t\n"} {
		if _, err := parseHeads(bad); err == nil {
			t.Errorf("%q is taken for heads", bad)
		}
	}
}

func FuzzParseHeads(f *testing.F) {
	f.Add(strings.Repeat("a", 40) + "\tnamed here \t" + strings.Repeat("b", 64) + "\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := parseHeads(text)
		for _, h := range all {
			for _, id := range append(h.parents, h.id) {
				if err == nil && len(id) != 40 && len(id) != 64 || strings.HasPrefix(id, "-") {
					t.Errorf("%q came out as a commit", id)
				}
			}
		}
	})
}

func TestFinished(t *testing.T) {
	for name, test := range map[string]struct {
		at          head
		work, dirty string
	}{
		"described":     {head{id: "c", parents: []string{"p"}, named: true}, "c", ""},
		"a merge":       {head{id: "c", parents: []string{"p", "q"}}, "c", ""},
		"no words":      {head{id: "c", parents: []string{"p"}}, "p", "c"},
		"upon the root": {head{id: "c"}, "", "c"},
		"the root":      {head{id: "000"}, "", ""},
	} {
		if work, copied := finished(test.at); work != test.work || copied != test.dirty {
			t.Errorf("%s: the work is %q, the copy of the files %q", name, work, copied)
		}
	}
}

func TestCurrent(t *testing.T) {
	for name, test := range map[string]struct {
		all  []head
		want string
	}{
		"the folder's":                  {[]head{{id: "1", copies: true}, {id: "2", here: true, copies: true}}, "2"},
		"renamed inside":                {[]head{{id: "1"}, {id: "2", copies: true}}, "2"},
		"one of several unknown":        {[]head{{id: "1", copies: true}, {id: "2", copies: true}}, ""},
		"of several operations, newest": {[]head{{id: "1", here: true}, {id: "2", here: true}}, "1"},
	} {
		if got, _ := current(test.all); got.id != test.want {
			t.Errorf("%s: %q, want %q", name, got.id, test.want)
		}
	}
}
