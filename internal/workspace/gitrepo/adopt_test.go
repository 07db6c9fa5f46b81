package gitrepo_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/workspace/gitrepo"
)

const (
	one = "1111111111111111111111111111111111111111"
	two = "2222222222222222222222222222222222222222"
)

func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		files map[string]string
		from  string
		own   bool
		want  map[string]string // after it; "" is absent
	}{
		{
			"its own branch", map[string]string{
				"HEAD": "ref: refs/heads/forage-a\n", "refs/heads/forage-a": one + "\n", "logs/refs/heads/forage-a": "log\n",
				"packed-refs": "# pack-refs with: sorted \n" + two + " refs/heads/forage-a\n^" + one + "\n" + two + " refs/heads/main\n",
			}, "forage-a", true, map[string]string{
				"HEAD": "ref: refs/heads/forage-b\n", "refs/heads/forage-b": one + "\n", "refs/heads/forage-a": "", "logs/refs/heads/forage-a": "",
				"packed-refs": "# pack-refs with: sorted \n" + two + " refs/heads/main\n",
			},
		},
		{
			"packed", map[string]string{"HEAD": "ref: refs/heads/forage-a\n", "packed-refs": two + " refs/heads/forage-a\n"}, "forage-a", true,
			map[string]string{"HEAD": "ref: refs/heads/forage-b\n", "refs/heads/forage-b": two + "\n", "packed-refs": "# pack-refs with: sorted \n"},
		},
		{
			"the user's branch", map[string]string{"HEAD": "ref: refs/heads/main\n", "refs/heads/main": one + "\n"}, "main", false,
			map[string]string{"HEAD": "ref: refs/heads/forage-b\n", "refs/heads/forage-b": one + "\n", "refs/heads/main": one + "\n"},
		},
		{
			"on another branch", map[string]string{"HEAD": "ref: refs/heads/x\n", "refs/heads/x": two + "\n", "refs/heads/forage-a": one + "\n"}, "forage-a", true,
			map[string]string{"HEAD": "ref: refs/heads/x\n", "refs/heads/forage-b": one + "\n", "refs/heads/forage-a": ""},
		},
		{
			"detached from the beginning", map[string]string{"HEAD": one + "\n"}, "", false,
			map[string]string{"HEAD": "ref: refs/heads/forage-b\n", "refs/heads/forage-b": one + "\n"},
		},
		{
			"no commit yet", map[string]string{"HEAD": "ref: refs/heads/main\n"}, "main", false,
			map[string]string{"HEAD": "ref: refs/heads/forage-b\n", "refs/heads/forage-b": ""},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range test.files {
				path := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := gitrepo.Adopt(dir, test.from, "forage-b", test.own); err != nil {
				t.Fatal(err)
			}
			got := make(map[string]string)
			for name := range test.want {
				text, err := os.ReadFile(filepath.Join(dir, name))
				if err != nil && !os.IsNotExist(err) {
					t.Fatal(err)
				}
				got[name] = string(text)
			}
			if d := cmp.Diff(test.want, got); d != "" {
				t.Errorf("-want +got\n%s", d)
			}
		})
	}
}

// TestAdoptHostile: links in what was written inside lead nowhere.
func TestAdoptHostile(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	file := filepath.Join(outside, "forage-b")
	if err := os.WriteFile(file, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(dir string) error{
		"refs":        func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "refs")) },
		"HEAD":        func(dir string) error { return os.Symlink(file, filepath.Join(dir, "HEAD")) },
		"packed-refs": func(dir string) error { return os.Symlink(file, filepath.Join(dir, "packed-refs")) },
	} {
		dir := t.TempDir()
		if name != "HEAD" {
			if err := os.WriteFile(filepath.Join(dir, "HEAD"), []byte(one+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := plant(dir); err != nil {
			t.Fatal(err)
		}
		gitrepo.Adopt(dir, "", "forage-b", true)
		if text, err := os.ReadFile(file); err != nil || string(text) != "precious" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
}
