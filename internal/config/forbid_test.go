package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
	"forage/internal/config"
	"forage/internal/testdir"
)

func TestCheckMount(t *testing.T) {
	for _, test := range []struct {
		pattern string
		denied  []string
		allowed []string
	}{
		{"~/.ssh/**",
			[]string{"/home/user/.ssh", "/home/user/.ssh/id", "/home/user/.ssh/a/b", "/home/user", "/home", "/"},
			[]string{"/home/user/.sshx", "/home/user/project", "/home/other/.ssh", "/home/other"}},
		{"~", []string{"/home/user", "/home/user/x", "/home"}, []string{"/home/other", "/home/user2"}},
		{"/srv/private", []string{"/srv/private", "/srv/private/x/y", "/srv"}, []string{"/srv/privateer", "/srv/public"}},
		{"/srv/private/", []string{"/srv/private", "/srv"}, []string{"/srv/x"}},
		{"/srv/*/keys", []string{"/srv/a/keys", "/srv/a/keys/x", "/srv/a", "/srv"}, []string{"/srv/a/b/keys", "/srv/a/b", "/srv/a/key"}},
		{"/srv/*.pem", []string{"/srv/a.pem", "/srv"}, []string{"/srv/a.pen", "/srv/a/b.pem"}},
		{"/srv/**/keys", []string{"/srv/keys", "/srv/a/keys", "/srv/a/b/keys/c", "/srv"}, []string{"/srv/a/b", "/opt"}},
		{"**/.env", []string{"/a/.env", "/.env", "/a/b/.env/c"}, []string{"/a/env", "/a/.env2"}},
		{"/**", []string{"/", "/a", "/a/b"}, nil},
	} {
		c := mustLoad(t, fmt.Sprintf("[forbid]\nmounts = [%q]", test.pattern))
		for _, path := range test.denied {
			err := c.Forbid.CheckMount(path)
			if !errors.Is(err, forage.ErrDenied) {
				t.Errorf("%s: %s is not denied: %v", test.pattern, path, err)
			} else if !strings.Contains(err.Error(), c.Files[0]+":2") {
				t.Errorf("who forbids is not named: %v", err)
			}
		}
		for _, path := range test.allowed {
			if err := c.Forbid.CheckMount(path); err != nil {
				t.Errorf("%s: %s is denied: %v", test.pattern, path, err)
			}
		}
	}
}

// TestCheckMountThroughLinks: what is mounted has its links resolved, and what
// is forbidden may be written by way of one.
func TestCheckMountThroughLinks(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real [1]", "home")
	testdir.Must(t, os.MkdirAll(filepath.Join(real, "secret"), 0o755))
	link := filepath.Join(dir, "link")
	testdir.Must(t, os.Symlink(real, link))
	file := write(t, dir, "config.toml", fmt.Sprintf("[forbid]\nmounts = ['~/.ssh', '%s/secret/*/deep']", link))
	c, err := config.Load(config.Env{UID: testUID, Home: link, SystemDir: dir + "/none", File: file})
	testdir.Must(t, err)
	for _, path := range []string{real + "/.ssh", link + "/.ssh", real + "/secret/a/deep", link + "/secret/a/deep"} {
		if c.Forbid.CheckMount(path) == nil {
			t.Errorf("%s is not denied", path)
		}
	}
	if err := c.Forbid.CheckMount(real + "/other"); err != nil {
		t.Error(err)
	}
}

// TestCheckMountThroughManyLinks: more of them than are followed at once.
func TestCheckMountThroughManyLinks(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	testdir.Must(t, err)
	testdir.Must(t, os.Symlink(dir, filepath.Join(dir, "link")))
	c := mustLoad(t, fmt.Sprintf("[forbid]\nmounts = ['%s/secret']", dir+strings.Repeat("/link", 300)))
	if c.Forbid.CheckMount(dir+"/secret") == nil {
		t.Error("not denied")
	}
}

func TestCheckFlagNetworkRuntime(t *testing.T) {
	c := mustLoad(t, "[forbid]\nflags = ['mount', 'env']\nnetworks = ['full']\nruntimes = ['docker']")
	for what, err := range map[string]error{
		"flag":    c.Forbid.CheckFlag("mount"),
		"network": c.Forbid.CheckNetwork(forage.NetworkFull),
		"runtime": c.Forbid.CheckRuntime("docker"),
	} {
		if forage.ExitCode(err) != 8 || !strings.Contains(err.Error(), c.Files[0]) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for what, err := range map[string]error{
		"flag":    c.Forbid.CheckFlag("network"),
		"network": c.Forbid.CheckNetwork(forage.NetworkRestricted),
		"runtime": c.Forbid.CheckRuntime("native"),
		"zero":    config.Forbid{}.CheckMount("/"),
	} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}
