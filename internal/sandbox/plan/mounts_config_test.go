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

// A sandbox can't change the configuration that holds it, and whose commands run on the host.
func TestConfigurationIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		workspace string // in the caller's home; the configuration is config.toml there, or .config/firefly-forage
		opts      Options
		refused   bool
	}{
		"a project":                     {workspace: "project"},
		"the usual folder":              {workspace: ".config/firefly-forage", refused: true},
		"a folder above it":             {workspace: ".config", refused: true},
		"read only":                     {workspace: ".config", opts: Options{ReadOnly: true}},
		"where a link leads":            {workspace: "dotfiles", refused: true},
		"a mount of the named file":     {workspace: "project", opts: Options{Mounts: []string{"HOME/config.toml:/mnt/c:rw"}}, refused: true},
		"a mount that can't be written": {workspace: "project", opts: Options{Mounts: []string{"HOME/config.toml:/mnt/c"}}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.write("dotfiles/forage.toml", "")
			d.write(".config/firefly-forage/x", "")
			testdir.Must(t, os.Symlink(filepath.Join(d.home, "dotfiles/forage.toml"), filepath.Join(d.home, ".config/firefly-forage/config.toml")))
			test.opts.Workspace, test.opts.Template = filepath.Join(d.home, test.workspace), "shell"
			for i, mount := range test.opts.Mounts {
				test.opts.Mounts[i] = strings.ReplaceAll(mount, "HOME", d.home)
			}
			_, _, err := d.plan("", test.opts)
			if !test.refused && err != nil {
				t.Error(err)
			}
			if test.refused && (!errors.Is(err, forage.ErrRefused) || !strings.Contains(err.Error(), "could change your configuration") || forage.Hint(err) == "") {
				t.Errorf("%v", err)
			}
		})
	}
}
