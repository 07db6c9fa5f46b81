package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/store"
	"forage/internal/testdir"
)

func TestFindPlaces(t *testing.T) {
	login := t.TempDir() // a login's run-time folder: the caller's alone
	testdir.Must(t, os.Chmod(login, 0o700))
	shared := t.TempDir()
	testdir.Must(t, os.Chmod(shared, 0o777))
	me := os.Getuid()
	const nobody = 4_000_000 // has no folder in /run/user
	for _, test := range []struct {
		name string
		uid  int
		home string
		vars map[string]string
		want store.Places
	}{
		{"root", 0, "/root", nil, store.Places{State: "/var/lib/firefly-forage", Runtime: "/run/firefly-forage"}},
		{"root ignores XDG", 0, "/root", map[string]string{"XDG_STATE_HOME": "/x", "XDG_RUNTIME_DIR": login},
			store.Places{State: "/var/lib/firefly-forage", Runtime: "/run/firefly-forage"}},
		{"user", nobody, "/home/u", nil,
			store.Places{State: "/home/u/.local/state/firefly-forage", Runtime: "/tmp/firefly-forage-4000000"}},
		{"XDG", nobody, "/home/u", map[string]string{"XDG_STATE_HOME": "/x/state"},
			store.Places{State: "/x/state/firefly-forage", Runtime: "/tmp/firefly-forage-4000000"}},
		{"relative XDG", nobody, "/home/u", map[string]string{"XDG_STATE_HOME": "state", "XDG_RUNTIME_DIR": "run"},
			store.Places{State: "/home/u/.local/state/firefly-forage", Runtime: "/tmp/firefly-forage-4000000"}},
		{"another user's XDG_RUNTIME_DIR", nobody, "/home/u", map[string]string{"XDG_RUNTIME_DIR": login},
			store.Places{State: "/home/u/.local/state/firefly-forage", Runtime: "/tmp/firefly-forage-4000000"}},
		{"overrides", 0, "", map[string]string{"FORAGE_STATE_DIR": "/a/../b/", "FORAGE_RUNTIME_DIR": "/c"},
			store.Places{State: "/b", Runtime: "/c"}},
	} {
		got, err := store.FindPlaces(store.Environment{UID: test.uid, Home: test.home, Getenv: func(name string) string { return test.vars[name] }})
		if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", test.name, err, diff)
		}
	}
	if me == 0 {
		return // root has fixed places: what follows is about owners
	}
	for dir, want := range map[string]string{login: login + "/firefly-forage", shared: ""} {
		got, err := store.FindPlaces(store.Environment{UID: me, Home: "/home/u", Getenv: func(name string) string {
			return map[string]string{"XDG_RUNTIME_DIR": dir}[name]
		}})
		if err != nil || (want != "" && got.Runtime != want) || (want == "" && filepath.Dir(got.Runtime) == dir) {
			t.Errorf("XDG_RUNTIME_DIR=%s: %+v, %v", dir, got, err)
		}
	}
}

func TestFindPlacesErrors(t *testing.T) {
	for name, env := range map[string]store.Environment{
		"no home":           {UID: 1000},
		"relative override": {Getenv: func(string) string { return "x/y" }},
	} {
		if _, err := store.FindPlaces(env); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestMakeRuntimeInASharedFolder: below /tmp anybody may have been first.
func TestMakeRuntimeInASharedFolder(t *testing.T) {
	mine := t.TempDir()
	for name, plant := range map[string]func(dir string) error{
		"link to a folder":      func(dir string) error { return os.Symlink(mine, dir) },
		"dangling link":         func(dir string) error { return os.Symlink(mine+"/nosuch", dir) },
		"file":                  func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"writable by the group": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o770), os.Chmod(dir, 0o770)) },
		"writable by all":       func(dir string) error { return errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)) },
		"another user's": func(dir string) error {
			return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 4_000_000, 4_000_000))
		},
	} {
		dir := filepath.Join(t.TempDir(), "firefly-forage-1")
		if err := plant(dir); err != nil {
			if os.Getuid() != 0 && errors.Is(err, os.ErrPermission) {
				continue // only root can give folders away
			}
			t.Fatal(err)
		}
		places := store.Places{State: t.TempDir(), Runtime: dir}
		err := places.MakeRuntime()
		if !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
		if name != "file" {
			if _, err := store.Open(dir); err == nil && name != "dangling link" {
				t.Errorf("%s: opened as a state folder", name)
			}
		}
	}
	if _, err := os.Lstat(mine + "/nosuch"); err == nil {
		t.Error("a dangling link was followed")
	}
}

func TestMakeRuntimeClosesWhatIsReadable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a/b")
	places := store.Places{State: filepath.Join(t.TempDir(), "state"), Runtime: dir}
	testdir.Must(t, places.MakeRuntime())
	testdir.Must(t, os.Chmod(dir, 0o755))
	testdir.Must(t, places.MakeRuntime())
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestRunningSandboxesAreFound: while something is in the run-time folder,
// every process of the state folder uses that one.
func TestRunningSandboxesAreFound(t *testing.T) {
	base := t.TempDir()
	state, first, second := filepath.Join(base, "state"), filepath.Join(base, "first"), filepath.Join(base, "second")
	find := func(runtime string) (store.Places, error) {
		vars := map[string]string{"FORAGE_STATE_DIR": state, "FORAGE_RUNTIME_DIR": runtime}
		return store.FindPlaces(store.Environment{UID: 4_000_000, Getenv: func(name string) string { return vars[name] }})
	}
	places, err := find(first)
	testdir.Must(t, err)
	testdir.Must(t, places.MakeRuntime())
	// Nothing runs: another folder is fine.
	if places, err = find(second); err != nil || places.Runtime != second {
		t.Fatalf("%+v, %v", places, err)
	}
	stale := places
	testdir.Must(t, os.Mkdir(filepath.Join(first, "sandbox"), 0o700))
	// Now the first is the one; what was chosen before is refused too.
	if places, err = find(""); err != nil || places.Runtime != first {
		t.Errorf("%+v, %v", places, err)
	}
	if _, err := find(second); !errors.Is(err, forage.ErrRefused) || forage.Hint(err) == "" {
		t.Errorf("another folder while sandboxes run: %v", err)
	}
	testdir.Fails(t, "starting in another folder while sandboxes run", forage.ErrRefused, stale.MakeRuntime())
	// A machine that was started again has an empty folder, or none.
	testdir.Must(t, os.RemoveAll(first))
	if places, err = find(second); err != nil || places.Runtime != second {
		t.Errorf("%+v, %v", places, err)
	}
	testdir.Must(t, places.MakeRuntime())
	// No user is led into a folder that is not the owner's alone.
	testdir.Must(t, errors.Join(os.Mkdir(filepath.Join(second, "sandbox"), 0o700), os.Chmod(second, 0o777)))
	if places, err = find(""); err != nil || places.Runtime == second {
		t.Errorf("%+v, %v", places, err)
	}
}
