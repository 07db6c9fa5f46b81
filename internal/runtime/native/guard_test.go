package native

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
)

// replaced puts a new file in the place of another one, as editors do that save.
func replaced(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o644))
	uid, gid := hostIDs()
	if os.Geteuid() == 0 {
		must(t, os.Chown(path+".new", uid, gid))
	}
	must(t, os.Rename(path+".new", path))
}

func isMounted(i *instance, target string) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", i.PID()))
	return err == nil && strings.Contains(string(text), " "+target+" ")
}

// hasInotify says whether this process has an inotify instance: a guard does, once it no longer looks by itself.
func hasInotify() bool {
	fds, _ := filepath.Glob("/proc/self/fd/*")
	return slices.ContainsFunc(fds, func(fd string) bool {
		kind, _ := os.Readlink(fd)
		return kind == "anon_inode:inotify"
	})
}

// inotify is an inotify instance. A user has so many, which other tests and their sandboxes take of too.
func inotify(t *testing.T, flags int) *os.File {
	t.Helper()
	var fd int
	waitFor(t, "an inotify instance", func() bool {
		var err error
		if fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | flags); err != unix.EMFILE {
			must(t, err)
		}
		return err == nil
	})
	return os.NewFile(uintptr(fd), "inotify")
}

// whenTold is a shell's wait for the host to make the file go.
const whenTold = "cd /workspace; while ! test -e go; do sleep 0.05; done\n"

func shell(text string) script {
	return script{Argv: []string{"/bin/sh", "-c", text}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}}
}

// What the host saves, removes and makes anew is protected again, and still is what the host made of it.
func TestGuard(t *testing.T) {
	dir := makeTree(t, ".envrc", ".claude/settings.json", "tools/hooks/pre-commit", "x")
	names := []string{".envrc", ".claude", "tools/hooks"}
	i, err := boxed(t, protecting(baseSpec(t, dir), names...), shell(whenTold+
		attempts(".envrc")+attempts(".claude")+attempts("tools/hooks")+"mv tools away 2>/dev/null && echo moved tools; cat .envrc .claude/new tools/hooks/new"))
	must(t, err)
	replaced(t, filepath.Join(dir, ".envrc"), "saved ")
	waitFor(t, ".envrc to be protected again", func() bool { return isMounted(i, "/workspace/.envrc") })
	waitFor(t, "the kernel to tell of changes", hasInotify)
	for _, folder := range []string{".claude", "tools"} {
		at := filepath.Join(dir, folder)
		must(t, os.Rename(at, at+".was"))
		must(t, os.CopyFS(at, os.DirFS(makeTree(t, map[string]string{".claude": "new", "tools": "hooks/new"}[folder]))))
	}
	waitFor(t, "folders to be protected again", func() bool {
		return isMounted(i, "/workspace/.claude") && isMounted(i, "/workspace/tools") && isMounted(i, "/workspace/tools/hooks")
	})
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	wantOut(t, answer(t, i), "saved newhooks/new")
}

// A sandbox that would see the host's own metadata, or could put its own in the place of it, is ended, with the reason.
func TestGuardEnds(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, at string){
		"removed": func(t *testing.T, at string) { must(t, os.RemoveAll(at)) },
		"moved":   func(t *testing.T, at string) { must(t, os.Rename(at, at+".was")) },
		"replaced": func(t *testing.T, at string) {
			must(t, os.RemoveAll(at))
			must(t, os.Mkdir(at, 0o755))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := makeTree(t, ".git/config", "x")
			private := makeTree(t, "config")
			i, err := boxed(t, with(baseSpec(t, dir), forage.Mount{Source: private, Target: "/workspace/.git", Writable: true}), sleeping())
			must(t, err)
			at := filepath.Join(dir, ".git")
			change(t, at)
			<-i.Done()
			if err := i.Err(); err == nil || !strings.Contains(err.Error(), at) {
				t.Errorf("ended with %v", err)
			}
		})
	}
}

// A folder that the spec mounts on itself, to hold what is in it, is watched as well.
func TestGuardOwnMounts(t *testing.T) {
	dir := makeTree(t, "libs/sub/.git", "empty/", "x")
	private := makeTree(t, "pointer")
	spec := with(baseSpec(t, dir),
		forage.Mount{Source: dir + "/libs", Target: "/workspace/libs", Writable: true},
		forage.Mount{Source: dir + "/empty", Target: "/workspace/empty"},
		forage.Mount{Source: private + "/pointer", Target: "/workspace/libs/sub/.git"})
	i, err := boxed(t, spec, sleeping())
	must(t, err)
	must(t, os.Remove(dir+"/empty"))
	must(t, os.Mkdir(dir+"/empty", 0o755))
	waitFor(t, "the folder to be read-only again", func() bool { return isMounted(i, "/workspace/empty") })
	must(t, os.Rename(dir+"/libs", dir+"/libs.was"))
	must(t, os.MkdirAll(dir+"/libs/sub", 0o755))
	must(t, os.WriteFile(dir+"/libs/sub/.git", nil, 0o644))
	<-i.Done()
	if err := i.Err(); err == nil || !strings.Contains(err.Error(), "libs/sub/.git") {
		t.Errorf("ended with %v", err)
	}
}

// Whatever whoever is inside does while the host saves again and again, what is at the path is protected in the end. It
// may win the race for what the host saves, and have put something else there: that is for hazard.Scan to find. Or the sandbox
// is ended.
func TestGuardRace(t *testing.T) {
	dir := makeTree(t, ".envrc")
	envrc := filepath.Join(dir, ".envrc")
	i, err := boxed(t, protecting(baseSpec(t, dir), ".envrc"), shell(`cd /workspace
		while ! test -e go; do (echo evil >.envrc) 2>/dev/null; mv .envrc away 2>/dev/null && ln -s away .envrc; done
		test -L .envrc || { (echo late >.envrc) 2>/dev/null && echo wrote; } # through a link of its own it writes to its own file
		mv .envrc y 2>/dev/null && echo moved`))
	must(t, err)
	for n := range 30 {
		replaced(t, envrc, fmt.Sprint(n))
		over := func() bool { return i.Err() != nil }
		waitFor(t, ".envrc to be protected again", func() bool { return isMounted(i, "/workspace/.envrc") || over() })
		// Each mount waits for all others on the machine, and then whoever is inside may win guardTries times in a row.
		if over() {
			if err := i.Err(); !strings.Contains(err.Error(), "replaced again and again") {
				t.Errorf("ended with %v", err)
			}
			return
		}
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o644))
	wantOut(t, answer(t, i), "")
}

func TestUnescapeMount(t *testing.T) {
	for text, want := range map[string]string{`/a\040b`: "/a b", `/a\134`: `/a\`, `/a\011\012`: "/a\t\n", "/plain": "/plain", `/cut\04`: `/cut\04`} {
		if got := unescapeMount(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// What can't be mounted over says why, and leaves nothing behind.
func TestReentryFails(t *testing.T) {
	i, err := boxed(t, protecting(baseSpec(t, makeTree(t, ".envrc", "link -> /tmp")), ".envrc"), sleeping())
	must(t, err)
	for target, want := range map[string]error{"/workspace/none": unix.ENOENT, "/workspace/link/x": unix.ELOOP, "/workspace/.envrc/x": unix.ENOTDIR} {
		if err := i.guard.namespaces.overItself(target, mount.ReadOnly); err != want {
			t.Errorf("%s: %v, want %v", target, err, want)
		}
	}
}

// Where the kernel would not tell of all changes, they are looked for.
func TestGuardKnowsWhatIsNotWatched(t *testing.T) {
	dir := makeTree(t, ".envrc")
	watches := inotify(t, 0)
	defer watches.Close()
	watchesNothing, err := os.Open(dir)
	must(t, err)
	defer watchesNothing.Close()
	for notify, want := range map[*os.File]bool{watches: true, watchesNothing: false} {
		g := &guard{notify: notify, list: []guarded{{host: filepath.Join(dir, ".envrc")}, {host: filepath.Join(dir, "gone/.envrc")}}}
		if got := g.watch(); got != want {
			t.Errorf("with %s: %t, want %t", notify.Name(), got, want)
		}
	}
}

// Whoever is inside makes changes without end, and folders of its own with names that are held elsewhere: what doesn't
// concern the guard has it look at nothing, and what may concern it is looked at no more often than it rests in between.
func TestGuardIsNotKeptBusy(t *testing.T) {
	dir := makeTree(t, ".envrc", "libs/other")
	var looks atomic.Int64
	mountinfo := func() ([]byte, error) {
		looks.Add(1)
		return []byte("1 1 0:1 / /w/.envrc rw\n1 1 0:1 / /w/libs/other rw\n"), nil
	}
	g := &guard{notify: inotify(t, unix.IN_NONBLOCK), mountinfo: mountinfo, stop: make(chan struct{}),
		list: []guarded{{target: "/w/.envrc", host: filepath.Join(dir, ".envrc")}, {target: "/w/libs/other", host: filepath.Join(dir, "libs/other")}}}
	defer g.notify.Close()
	ended := make(chan struct{})
	go func() { g.follow(); close(ended) }()
	flicker := func(name string) {
		must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
		must(t, os.Remove(filepath.Join(dir, name)))
	}
	waitFor(t, "the look before anything has changed", func() bool { return looks.Load() == 1 })
	for range 1000 {
		flicker("libs/.envrc")
		flicker("other")
	}
	flicker(".envrc")
	waitFor(t, "a look at what concerns it", func() bool { return looks.Load() > 1 })
	if n := looks.Load(); n > 3 { // one when it was made, one when it was removed
		t.Errorf("it looked %d times for names of another folder's", n-1)
	}
	before, began := looks.Load(), time.Now()
	for looks.Load() < before+20 {
		flicker(".envrc")
	}
	if n, most := looks.Load()-before, 2+int64(time.Since(began)/restPace); n > most {
		t.Errorf("it looked %d times, want %d at most", n, most)
	}
	close(g.stop)
	<-ended
}
