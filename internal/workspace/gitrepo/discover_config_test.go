package gitrepo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testgit"
)

// byGit is what git itself reads in a file; false when it refuses it.
func byGit(t *testing.T, text string) (map[string][]string, bool) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("git", "config", "--file", file, "--no-includes", "--null", "--list")
	cmd.Env = testgit.Environ(dir)
	out, err := cmd.Output()
	found := map[string][]string{}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		key, value, valued := strings.Cut(entry, "\n")
		if !valued {
			value = "true"
		}
		if key != "" {
			found[key] = append(found[key], value)
		}
	}
	return found, err == nil
}

var configs = []string{
	"",
	"[core]\n\tbare = false\n",
	"\ufeff[core]\r\n\tbare = false\r\n\tx = a\\\r\n b\r\n",
	"[Core] Bare=TRUE # comment\n[core]bare\n",
	"[remote \"Ori\\\"gin \\\\ x\"]\n\turl = https://x/y ; not this\n\tfetch = +refs/heads/*:refs/remotes/origin/*\n",
	"[branch.Main]\n\tremote=origin\n",
	"[a]\nb = \"  quoted  \" \nc = un\"quo ted\"x\nd = \"a;b#c\"\ne = \\t\\n\\b\\\\\\\"\nf =\ng = a   b\t \nh = x\\\ny\n",
	"; comment\n# another\n[a \"\"]\nb=1\n[a \"x.y\"]\nb=2\n",
	"[a]\nb = 1", "[a]\nb", "[a]\nb = \"1", "[a]\nb = \\q", "[a\nb = 1", "[a b]\nc=1", "[a \"b\nc\"]\nd=1", "b = 1", "[a]\n1b = 1", "[a]\n-b = 1",
	"[a]\nb c", "[]\na=1", "[a-b.c]\nd-e = f\n", "[a] b = 1 \n", "[include]\n\tpath = /nowhere\n",
}

func TestConfigIsReadAsGitReadsIt(t *testing.T) {
	for _, text := range configs {
		want, ok := byGit(t, text)
		got, err := parseConfig(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v, and for git it is good: %t", text, err, ok)
			continue
		}
		if err == nil {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q (-git +ours):\n%s", text, diff)
			}
		}
	}
}

func FuzzConfig(f *testing.F) {
	for _, text := range configs {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseConfig(text)
		if err != nil {
			return
		}
		c := configText{} // what was read can be written, and is read back the same
		for key, values := range got {
			if section, name, _ := strings.Cut(key, "."); section == "" || name == "" || strings.ContainsAny(key, "\n\x00\"\\") || strings.Contains(strings.Join(values, ""), "\x00") {
				return
			}
			c[key] = values
		}
		again, err := parseConfig(c.String())
		if err != nil {
			t.Fatalf("%q was written as %q: %v", text, c.String(), err)
		}
		if diff := cmp.Diff(got, again); diff != "" && !strings.ContainsAny(text, "\b\r\x00") {
			t.Errorf("%q (-read +written):\n%s", text, diff)
		}
	})
}

func FuzzGitlinks(f *testing.F) {
	r := testgit.Init(f, f.TempDir())
	r.Commit("a", "b")
	r.Git("update-index", "--add", "--cacheinfo", "160000,"+r.Git("rev-parse", "HEAD")+",sub")
	for _, version := range []string{"2", "3", "4"} {
		r.Git("update-index", "--index-version", version)
		text, err := os.ReadFile(filepath.Join(r.Dir, ".git/index"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, index []byte) {
		if _, err := parseGitlinks(index, 20); err != nil {
			return
		}
		_, _ = parseGitlinks(index, 32)
	})
}
