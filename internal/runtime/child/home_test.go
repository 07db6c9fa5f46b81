package child

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/landlock"
)

// withHome is a sandbox with a kept home, and with all kinds of things that are put into one.
func withHome(t testing.TB, home string) forage.Spec {
	spec := with(baseSpec(t, makeTree(t, "file")), forage.Mount{Source: makeTree(t, "shown"), Target: "/home/agent/data/deep"})
	spec.KeptHome = home
	spec.Links = append(spec.Links, forage.Link{Path: "/home/agent/bin/tool", Target: "/usr/bin/tool"})
	spec.Files = append(spec.Files,
		forage.File{Path: "/home/agent/.settings.json", Content: []byte("ours"), Mode: 0o600, Owned: true},
		forage.File{Path: "/home/agent/.agent/login", Content: []byte("placeholder"), Mode: 0o600, Owned: true, Renew: true},
		forage.File{Path: "/home/agent/.config/tool", Content: []byte("fixed")})
	return spec
}

func TestKeptHome(t *testing.T) {
	home := makeTree(t)
	for start, want := range []string{"ours|placeholder|fixed|/usr/bin/tool|shown|", "mine|placeholder|fixed|/usr/bin/tool|shown|later"} {
		o := inside(t, withHome(t, home), `cd; for f in .settings.json .agent/login .config/tool; do cat $f; printf '|'; done
			readlink -n bin/tool; printf '|'; cat data/deep/shown; printf '|'; cat note 2>/dev/null
			(echo x >.config/tool) 2>/dev/null && echo wrote
			printf mine >.settings.json; printf mine >.agent/login; printf later >note; mkfifo -m 600 fifo 2>/dev/null; true`)
		if o.Out != want {
			t.Errorf("start %d: %q, want %q", start, o.Out, want)
		}
	}
	if info, err := os.Lstat(filepath.Join(home, ".agent/login")); err != nil || info.Mode() != 0o600 {
		t.Error(info, err)
	}
}

// TestHostileHome starts a sandbox with what an agent may have left in its home. Nothing
// is written, or shown, through a link; what is in the way is refused with what to do.
func TestHostileHome(t *testing.T) {
	for _, tc := range []struct {
		name   string
		left   string // "path", "path/", "path -> VICTIM", "path|" for a FIFO
		starts bool
	}{
		{"a link for settings", ".settings.json -> VICTIM/new", true},
		{"a link to a file for settings", ".settings.json -> VICTIM/file", true},
		{"a FIFO for settings", ".settings.json|", true},
		{"a folder for settings", ".settings.json/", true},
		{"a link for the login", ".agent/login -> VICTIM/file", true},
		{"a dangling link for the login", ".agent/login -> VICTIM/new", true},
		{"a FIFO for the login", ".agent/login|", true},
		{"a folder for the login", ".agent/login/", false},
		{"a link for the login's folder", ".agent -> VICTIM", false},
		{"a link to the workspace", ".agent -> /workspace", false},
		{"a file for the login's folder", ".agent", false},
		{"a link for a file of ours", ".config/tool -> VICTIM/file", false},
		{"a link for its folder", ".config -> VICTIM", false},
		{"a folder for a file of ours", ".config/tool/", false},
		{"a FIFO for a file of ours", ".config/tool|", true},
		{"a link for a mount", "data/deep -> VICTIM", false},
		{"a link on the way to a mount", "data -> VICTIM", false},
		{"a file for a mount", "data/deep", false},
		{"a link of its own for ours", "bin/tool -> VICTIM/file", true},
		{"a link for our link's folder", "bin -> VICTIM", false},
		{"a link out by /proc", ".agent -> /proc/self/root/tmp", false},
		{"a link upwards", ".agent -> ../../../../../../tmp", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			victim := makeTree(t, "file")
			left := strings.ReplaceAll(tc.left, "VICTIM", victim)
			path, fifo := strings.CutSuffix(left, "|")
			home := makeTree(t)
			if fifo {
				must(t, os.MkdirAll(filepath.Dir(filepath.Join(home, path)), 0o755))
				must(t, unix.Mkfifo(filepath.Join(home, path), 0o600))
				chownTree(t, home)
			} else {
				home = makeTree(t, left)
			}
			spec := withHome(t, home)
			i, err := boxed(t, spec, sleeping())
			if started := err == nil; started != tc.starts {
				t.Fatalf("%v %v", i, err)
			}
			if err != nil && !strings.Contains(forage.Hint(err), "forage-ctl reset") {
				t.Errorf("%v: the hint is %q", err, forage.Hint(err))
			}
			if entries, _ := os.ReadDir(victim); len(entries) != 1 {
				t.Errorf("made outside: %v", entries)
			}
			if text, err := os.ReadFile(filepath.Join(victim, "file")); string(text) != "file" {
				t.Errorf("%q %v", text, err)
			}
			if login, err := os.Lstat(filepath.Join(home, ".agent/login")); tc.starts && (err != nil || !login.Mode().IsRegular()) {
				t.Error(login, err)
			}
		})
	}
}

// TestClosedHome: a home, and a folder in it, that the agent has closed for itself.
func TestClosedHome(t *testing.T) {
	home := makeTree(t, ".agent/")
	must(t, os.Chmod(filepath.Join(home, ".agent"), 0))
	must(t, os.Chmod(home, 0))
	defer os.Chmod(home, 0o700)
	wantOut(t, inside(t, withHome(t, home), `chmod 700 ~ ~/.agent; cat ~/.agent/login`), "placeholder")
}

// TestHomeLink: the home itself can't be led elsewhere.
func TestHomeLink(t *testing.T) {
	base := makeTree(t, "elsewhere/file", "home -> elsewhere")
	if i, err := boxed(t, withHome(t, filepath.Join(base, "home")), script{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(i, err)
	}
}

// TestMountSocket: no FIFO gets into a folder of the user's that is mounted below one of the
// sandbox's own.
func TestMountSocket(t *testing.T) {
	if !landlock.Available(landlock.Options{}).Files {
		t.Skip("needs Landlock's file rules")
	}
	shown := makeTree(t, "x")
	for _, area := range []string{"/home/agent", "/tmp", "/var/tmp"} {
		for writable, want := range map[bool]string{true: "", false: "beside it"} {
			spec := with(baseSpec(t, makeTree(t, "file")), forage.Mount{Source: shown, Target: area + "/shown", Writable: writable})
			spec.KeptHome = makeTree(t)
			wantOut(t, inside(t, spec, `cd `+area+`; mkfifo shown/fifo 2>/dev/null && echo in the mount; mkfifo fifo 2>/dev/null && echo beside it; true`), want)
		}
	}
	if entries, _ := os.ReadDir(shown); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
}
