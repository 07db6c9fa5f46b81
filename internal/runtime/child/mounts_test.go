package child

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testdir"
)

// makeTree makes files below a new folder: "name" is a file with its name as content,
// "name/" a folder, "name -> target" a link.
func makeTree(t testing.TB, entries ...string) string {
	t.Helper()
	dir := testdir.Plain(t)
	for _, e := range entries {
		name, target, link := strings.Cut(e, " -> ")
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case link:
			must(t, os.Symlink(target, path))
		case strings.HasSuffix(name, "/"):
			must(t, os.MkdirAll(path, 0o755))
		default:
			must(t, os.WriteFile(path, []byte(name), 0o644))
		}
	}
	chownTree(t, dir)
	return dir
}

func with(spec forage.Spec, mounts ...forage.Mount) forage.Spec {
	spec.Mounts = append(spec.Mounts, mounts...)
	return spec
}

func wantOut(t *testing.T, o outcome, want string) {
	t.Helper()
	if got := strings.TrimSpace(o.Out); got != want {
		t.Errorf("printed %q, want %q", got, want)
	}
}

func TestExtraMounts(t *testing.T) {
	data := makeTree(t, "a", "deep/b")
	more := makeTree(t, "c")
	single := filepath.Join(makeTree(t, "settings.json"), "settings.json")
	workspace := makeTree(t, "inner/", "file", "kept/x")
	spec := with(baseSpec(t, workspace),
		forage.Mount{Source: data, Target: "/data"},
		forage.Mount{Source: more, Target: "/data2/more", Writable: true},
		forage.Mount{Source: single, Target: "/home/agent/.tool/settings.json"},
		forage.Mount{Source: more, Target: "/workspace/inner"},
		forage.Mount{Source: single, Target: "/workspace/file", Writable: true},
		forage.Mount{Source: filepath.Join(workspace, "absent"), Target: "/absent", Optional: true})
	o := inside(t, spec, `
		cat /data/a /data/deep/b /data2/more/c /home/agent/.tool/settings.json /workspace/inner/c /workspace/file; echo
		for f in /data/new /workspace/inner/new /home/agent/.tool/settings.json /new; do (echo x >$f) 2>/dev/null && echo wrote $f; done
		echo new >/data2/more/new && echo changed >/workspace/file && echo y >/home/agent/.tool/other
		test -e /absent && echo absent is there
		rm /home/agent/.tool/settings.json 2>/dev/null && echo removed
		true`)
	wantOut(t, o, "adeep/bcsettings.jsoncsettings.json")
	for path, want := range map[string]string{filepath.Join(more, "new"): "new\n", single: "changed\n"} {
		if text, err := os.ReadFile(path); err != nil || string(text) != want {
			t.Errorf("%s is %q, %v", path, text, err)
		}
	}
}

func TestRefusedMounts(t *testing.T) {
	base := makeTree(t, "file", "folder/x", "link -> folder", "workspace/")
	socket := filepath.Join(base, "sock")
	l, err := net.Listen("unix", socket)
	must(t, err)
	defer l.Close()
	must(t, unix.Mkfifo(filepath.Join(base, "fifo"), 0o600))
	folder := filepath.Join(base, "folder")
	for _, tc := range []struct {
		name  string
		mount forage.Mount
		kind  error
		says  string
	}{
		{"a missing source", forage.Mount{Source: base + "/none", Target: "/x"}, os.ErrNotExist, "none"},
		{"a link", forage.Mount{Source: base + "/link", Target: "/x"}, forage.ErrRefused, "symbolic link"},
		{"a link on the way", forage.Mount{Source: base + "/link/x", Target: "/x"}, forage.ErrRefused, "symbolic link"},
		{"a socket", forage.Mount{Source: socket, Target: "/x"}, forage.ErrRefused, "neither"},
		{"a FIFO", forage.Mount{Source: base + "/fifo", Target: "/x"}, forage.ErrRefused, "neither"},
		{"a device", forage.Mount{Source: "/dev/null", Target: "/x"}, forage.ErrRefused, "neither"},
		{"over the root", forage.Mount{Source: folder, Target: "/"}, forage.ErrRefused, "at /"},
		{"over /proc", forage.Mount{Source: folder, Target: "/proc"}, forage.ErrRefused, "at /proc"},
		{"into /proc", forage.Mount{Source: folder, Target: "/proc/sys"}, forage.ErrRefused, "at /proc"},
		{"into /dev", forage.Mount{Source: folder, Target: "/dev/shm"}, forage.ErrRefused, "at /dev"},
		{"over our folder", forage.Mount{Source: folder, Target: "/run"}, forage.ErrRefused, "at /run"},
		{"into our folder", forage.Mount{Source: folder, Target: forage.RunPath + "/x"}, forage.ErrRefused, "at /run/forage"},
		{"a relative target", forage.Mount{Source: folder, Target: "x"}, forage.ErrUsage, "clean"},
		{"an unclean target", forage.Mount{Source: folder, Target: "/x/../proc"}, forage.ErrUsage, "clean"},
		{"the workspace twice", forage.Mount{Source: folder, Target: "/workspace"}, forage.ErrUsage, "two mounts"},
		{"a place that is not there", forage.Mount{Source: folder, Target: "/workspace/none"}, forage.ErrStart, "no such place"},
		{"a place below that", forage.Mount{Source: folder, Target: "/workspace/none/more"}, forage.ErrStart, "no such place"},
		{"through a link in the workspace", forage.Mount{Source: folder, Target: "/workspace/away/x"}, forage.ErrStart, "symbolic link"},
		{"over a link in the workspace", forage.Mount{Source: folder, Target: "/workspace/away"}, forage.ErrStart, "symbolic link"},
		{"through a link of the system", forage.Mount{Source: folder, Target: "/bin/x"}, forage.ErrStart, ""},
		{"a folder over a file", forage.Mount{Source: folder, Target: "/workspace/plain"}, forage.ErrStart, ""},
		{"a writable part of the system", forage.Mount{Source: folder, Target: "/x", System: true, Writable: true}, forage.ErrRefused, "system"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			workspace := makeTree(t, "away -> /tmp", "plain")
			i, err := boxed(t, with(baseSpec(t, workspace), tc.mount), script{})
			if err == nil {
				t.Fatal("started", i.PID())
			}
			if !errors.Is(err, tc.kind) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%v (%d), want %v with %q", err, forage.ExitCode(err), tc.kind, tc.says)
			}
			if entries, _ := os.ReadDir(workspace); len(entries) != 2 {
				t.Errorf("something was made in the workspace: %v", entries)
			}
		})
	}
}

func TestGit(t *testing.T) {
	const try = `(echo x >.git/hooks/h) 2>/dev/null && echo wrote; (echo x >.git) 2>/dev/null && echo wrote; mv .git g 2>/dev/null && echo moved; true`
	for _, tc := range []struct {
		name    string
		entries []string
		want    string
	}{
		{"a folder", []string{".git/hooks/x"}, ""},
		{"a pointer", []string{".git"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wantOut(t, inside(t, baseSpec(t, makeTree(t, tc.entries...)), "cd /workspace; "+try), tc.want)
		})
	}
	t.Run("a link", func(t *testing.T) {
		_, err := boxed(t, baseSpec(t, makeTree(t, ".git -> elsewhere", "elsewhere/hooks/")), script{})
		if !errors.Is(err, forage.ErrRefused) {
			t.Errorf("%v", err)
		}
	})
	t.Run("none", func(t *testing.T) {
		wantOut(t, inside(t, baseSpec(t, makeTree(t, "x")), "cd /workspace; mkdir .git && echo made"), "made")
	})
}

func TestReadOnlyWorkspace(t *testing.T) {
	dir := makeTree(t, "x", ".git/config")
	spec := baseSpec(t, dir)
	spec.Mounts[len(spec.Mounts)-1].Writable = false
	wantOut(t, inside(t, spec, "cd /workspace; cat x; (echo y >x) 2>/dev/null && echo wrote; rm x 2>/dev/null && echo removed; chmod 777 x 2>/dev/null && echo changed; true"), "x")
}

// TestClosedFolder: the owner of a folder can open it up inside, so the scan
// looks into it too.
func TestClosedFolder(t *testing.T) {
	dir := makeTree(t, "closed/x", "open/y")
	must(t, unix.Mkfifo(filepath.Join(dir, "closed/fifo"), 0o666))
	chownTree(t, dir)
	must(t, os.Chmod(filepath.Join(dir, "closed"), 0))
	defer os.Chmod(filepath.Join(dir, "closed"), 0o755)
	wantOut(t, inside(t, baseSpec(t, dir), "cd /workspace; chmod 755 closed; test -p closed/fifo && echo FIFO; ls closed"), "fifo\nx")
}

// TestForeignFolder: a folder of another user's that can be gone through but not read.
func TestForeignFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make files of others")
	}
	dir := makeTree(t, "foreign/")
	foreign := filepath.Join(dir, "foreign")
	must(t, unix.Mkfifo(filepath.Join(foreign, "fifo"), 0o666))
	must(t, os.Chmod(filepath.Join(foreign, "fifo"), 0o666))
	must(t, os.Chown(foreign, 1, 1))
	must(t, os.Chmod(foreign, 0o711))
	wantOut(t, inside(t, baseSpec(t, dir), "cd /workspace; test -p foreign/fifo && echo FIFO; ls foreign; true"), "")
}

// TestInnerMount: what is mounted within the workspace on the host is looked through too.
func TestInnerMount(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount something on the host")
	}
	dir := makeTree(t, "inner/deep/")
	inner := filepath.Join(dir, "inner")
	must(t, unix.Mount("forage-test", inner, "tmpfs", 0, "mode=0777"))
	defer unix.Unmount(inner, unix.MNT_DETACH)
	must(t, os.Mkdir(filepath.Join(inner, "deeper"), 0o777))
	must(t, unix.Mkfifo(filepath.Join(inner, "deeper/fifo"), 0o666))
	must(t, os.WriteFile(filepath.Join(inner, "file"), []byte("seen"), 0o644))
	wantOut(t, inside(t, baseSpec(t, dir), `cd /workspace/inner; cat file; test -p deeper/fifo && echo FIFO; grep -c " /workspace/inner .*nosuid" /proc/self/mounts`), "seen1")
}

// TestPropagation: what the host mounts later, below a folder whose mounts
// are shared as systemd makes them, does not come up inside.
func TestPropagation(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount something on the host")
	}
	dir := makeTree(t)
	must(t, unix.Mount("forage-test", dir, "tmpfs", 0, "mode=0777"))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	must(t, unix.Mount("", dir, "", unix.MS_SHARED, ""))
	later := filepath.Join(dir, "later")
	must(t, os.Mkdir(later, 0o777))
	i, err := boxed(t, baseSpec(t, dir), sleeping())
	must(t, err)
	must(t, unix.Mount("forage-later", later, "tmpfs", 0, ""))
	defer unix.Unmount(later, unix.MNT_DETACH)
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", i.PID()))
	must(t, err)
	for _, bad := range []string{"forage-later", "shared:", "master:"} {
		if strings.Contains(string(table), bad) {
			t.Errorf("%s in the sandbox's mounts:\n%s", bad, table)
		}
	}
}

// TestSystemSocket: a socket that a host's program has below a part of the system is covered.
func TestSystemSocket(t *testing.T) {
	dir := makeTree(t, "run/", "file")
	l, err := net.Listen("unix", filepath.Join(dir, "run/app.sock"))
	must(t, err)
	defer l.Close()
	must(t, os.Chmod(filepath.Join(dir, "run/app.sock"), 0o777))
	spec := with(baseSpec(t, makeTree(t)), forage.Mount{Source: dir, Target: dir, System: true})
	wantOut(t, inside(t, spec, "cd "+dir+"; cat file; test -S run/app.sock && echo socket; test -e run/app.sock && echo ' covered'"), "file covered")
}

// TestDeepTree: a tree that is deeper than paths can say does not keep a
// sandbox from starting, and is not seen where it was not looked at.
func TestDeepTree(t *testing.T) {
	dir := makeTree(t, "x")
	at, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range 3000 {
		must(t, unix.Mkdirat(at, "deep", 0o755))
		next, err := unix.Openat(at, "deep", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		must(t, err)
		unix.Close(at)
		at = next
	}
	must(t, unix.Mkfifoat(at, "fifo", 0o666))
	unix.Close(at)
	chownWorkspace(t, dir)
	wantOut(t, inside(t, baseSpec(t, dir), `cd /workspace; n=0; while cd deep 2>/dev/null; do n=$((n+1)); done; echo $n; ls`), "201")
}

func TestManySockets(t *testing.T) {
	dir := makeTree(t, "x")
	for n := range maxSpecial + 1 {
		must(t, unix.Mkfifo(filepath.Join(dir, "fifo"+string(rune('a'+n%26))+strings.Repeat("x", n/26)), 0o600))
	}
	_, err := boxed(t, baseSpec(t, dir), script{})
	if !errors.Is(err, forage.ErrStart) || !strings.Contains(err.Error(), "sockets") {
		t.Errorf("%v", err)
	}
}

func TestFiles(t *testing.T) {
	spec := baseSpec(t, makeTree(t, "over"))
	spec.Files = append(spec.Files,
		forage.File{Path: "/etc/forage-test", Content: []byte("1")},
		forage.File{Path: "/home/agent/.config/x/y", Content: []byte("2")},
		forage.File{Path: forage.RunPath + "/sub/ca.pem", Content: []byte("3")},
		forage.File{Path: "/run/secrets/key", Content: []byte("4"), Mode: 0o400},
		forage.File{Path: "/workspace/over", Content: []byte("5")},
		forage.File{Path: "/opt-not-there/bin/tool", Content: []byte("#!/bin/sh\necho 6\n"), Mode: 0o555},
		forage.File{Path: "/tmp/empty"})
	o := inside(t, spec, `
		cat /etc/forage-test /home/agent/.config/x/y `+forage.RunPath+`/sub/ca.pem /run/secrets/key /workspace/over /tmp/empty; /opt-not-there/bin/tool
		for f in /etc/forage-test /home/agent/.config/x/y `+forage.RunPath+`/sub/ca.pem /run/secrets/key /workspace/over /tmp/empty; do
			chmod 777 $f 2>/dev/null; (echo bad >$f) 2>/dev/null && echo wrote $f; rm -f $f 2>/dev/null && echo removed $f; done; true`)
	wantOut(t, o, "123456")
}
