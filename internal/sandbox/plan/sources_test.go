package plan

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

// Nothing inside can read a secret's source, change it, or change what is run on the host for it.
func TestSourcesAreApart(t *testing.T) {
	for name, test := range map[string]struct {
		source string // of the secret; HOME is the caller's home, of which HOME/project is the workspace
		opts   Options
		want   string // part of the error; "" is none
	}{
		"a file of its own":               {source: `file = "HOME/key"`},
		"a file in the workspace":         {source: `file = "HOME/project/key"`, want: "HOME/project/key is in what the sandbox sees at /workspace"},
		"a file that can't be written":    {source: `file = "HOME/project/key"`, opts: Options{ReadOnly: true}, want: "/workspace"},
		"a file that is not there yet":    {source: `file = "HOME/project/new"`, want: "/workspace"},
		"spelled otherwise":               {source: `file = "HOME/keys/../project/key"`, want: "/workspace"},
		"a link in the workspace":         {source: `file = "HOME/project/link-out"`, want: "/workspace"},
		"a link into the workspace":       {source: `file = "HOME/link-in"`, want: "/workspace"},
		"links into the workspace":        {source: `file = "HOME/link-link-in"`, want: "/workspace"},
		"a link through the workspace":    {source: `file = "HOME/link-through"`, want: "/workspace"},
		"a folder that leads there":       {source: `file = "HOME/folder/key"`, want: "/workspace"},
		"a loop of links":                 {source: `file = "HOME/loop"`},
		"in a mount":                      {source: `file = "HOME/keys/key"`, opts: Options{Mounts: []string{"HOME/keys:/mnt/keys"}}, want: "/mnt/keys"},
		"a mount itself":                  {source: `file = "HOME/keys/key"`, opts: Options{Mounts: []string{"HOME/keys/key:/mnt/key"}}, want: "/mnt/key"},
		"beside a mount":                  {source: `file = "HOME/keys-2"`, opts: Options{Mounts: []string{"HOME/keys:/mnt/keys"}}},
		"a login in the workspace":        {source: "login = \"claude\"\nloginFile = \"HOME/project/login\"", want: "/workspace"},
		"a command of the system's":       {source: `command = ["cat", "HOME/key"]`},
		"a command in the workspace":      {source: `command = ["HOME/project/get"]`, want: "the sandbox can change at /workspace"},
		"a script in the workspace":       {source: `command = ["sh", "HOME/project/get"]`, want: "the sandbox can change at /workspace"},
		"a command that can't be written": {source: `command = ["HOME/project/get"]`, opts: Options{ReadOnly: true}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			for _, file := range []string{"key", "keys/key", "keys-2", "project/key", "project/get"} {
				d.write(file, "sk-value")
			}
			d.write("project/login", `{"claudeAiOauth":{"accessToken":"a","refreshToken":"r","expiresAt":1}}`)
			for link, to := range map[string]string{
				"project/link-out": "../key", "link-in": "project/key", "link-link-in": "link-in", "link-through": "project/link-out",
				"folder": "project", "loop": "loop",
			} {
				testdir.Must(t, os.Symlink(to, filepath.Join(d.home, link)))
			}
			here := strings.NewReplacer("HOME", d.home)
			for i, mount := range test.opts.Mounts {
				test.opts.Mounts[i] = here.Replace(mount)
			}
			test.opts.Template = "own"
			config := "[secrets.a]\n" + here.Replace(test.source) + "\npreset = \"anthropic\"\n[templates.own]\nsecrets = [\"a\"]\n"
			_, _, err := d.plan(config, test.opts)
			switch {
			case test.want == "" && err != nil:
				t.Error(err)
			case test.want != "" && (!errors.Is(err, forage.ErrUsage) || !strings.Contains(err.Error(), here.Replace(test.want)) || forage.Hint(err) == ""):
				t.Errorf("%v, want %q", err, test.want)
			}
		})
	}
}
