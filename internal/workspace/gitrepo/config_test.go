package gitrepo

import (
	"maps"
	"slices"
	"testing"
)

// What is read without git is what git reads; what git refuses is never read without it.
func TestConfigIsReadAsGitReadsIt(t *testing.T) {
	for _, text := range []string{
		"", "[core]", "[core]\nbare", "[core]\nbare =", "[Core]\n\tBare = False\n[core] \r\n\tbare = true\r\n",
		"[a \"B c\"]\nx=1\n[a]\nx = 2\nx=3", "[a \"\"]\nx=1", "[a\"b\"]\nx=1", "[a \"b]\"]\nx = 1", "[a \"b\\\"c\"]\nx=1", "[a \t \"b\"]\nx=1",
		"[a.b]\nx=1", "[a] x = 1", "[a] ; \"]\nx=1", "[a \"b\"] # \"]\nx=1", "[]\nx=1", "[a b]\nx=1", "[a", "[ a]\nx=1", "[a ]\nx=1",
		"x=1", "# x\n; [y]\n", "[a]\n# \\\nx=1", "[a]\n1x=1", "[a]\n-x=1", "[a]\nx-1=1", "[a]\nx_1=1", "[a]\nx y", "[a]\n=1", "[a]\nx # c", "[a]\nx\n=1",
		"[a]\nx=  a  b  ", "[a]\nx = \"a  \"  ", "[a]\nx = a \"\"", "[a]\nx = \"\"  a", "[a]\nx = \" a\" b", "[a]\nx = a\tb", "[a]\nx =\ta\t# b",
		"[a]\nx = a # b", "[a]\nx = a;b", "[a]\nx = \"a # b\" ; c", "[a]\nx = \"a", "[a]\nx = a\\", "[a]\nx = a\\\nb", "[a]\nx = \"a\\\nb\"\ny=1",
		"[a]\nx = \\n\\t\\b\\\\\\\" c", "[a]\nx = \\q", "[a]\nx = a\\  b", "[a]\nx = a\rb", "[a]\nx = a\r", "\ufeff[a]\nx=1", "[a]\nx = \"a\x01\"", "[a]\nx = ü",
		"[a]\nx = !f() { git \\\"$@\\\"; }; f", "[a]\nx = \"!f() { git \\\"$@\\\"; }; f\"", "[a]\nx = a=b", "[includeIf \"gitdir:~/w/\"]\npath = ~/w.inc", "[a]\nx = \x00",
	} {
		read, ok := parseConfig(text)
		if asked, err := askConfig(t.Context(), []byte(text)); ok && (err != nil || !maps.EqualFunc(read, asked, slices.Equal)) {
			t.Errorf("%q: read %q; git says %q, %v", text, read, asked, err)
		} else if !ok {
			t.Logf("git is asked: %q", text)
		}
	}
	if found, ok := parseConfig("[user]\n\tname = \"A # B\"\n[branch \"m\"]\n\tmerge = refs/heads/m\n"); !ok || found["user.name"][0] != "A # B" || found["branch.m.merge"][0] != "refs/heads/m" {
		t.Errorf("git is asked about what is plain: %q", found)
	}
}
