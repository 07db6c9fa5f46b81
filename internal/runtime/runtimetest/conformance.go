package runtimetest

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/guest/guestclient"
)

// Conformance checks that sandboxes of the runtime are what their Spec says.
func Conformance(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*host)
	}{
		{"command", commandRuns},
		{"identity", identityIsTheAgents},
		{"environment", environmentIsThePlans},
		{"workspace", workspaceIsTheUsers},
		{"read-only workspace", workspaceCanBeReadOnly},
		{"mounts", mountsAreAsPlanned},
		{"home", homeIsKept},
		{"missing mount", missingMountFails},
		{"files", filesAreThere},
		{"folder as root filesystem", folderIsARootfs},
		{"network", networkIsThePlans},
		{"connections", connectionsAreWhole},
		{"session", sessionIsLogged},
		{"tasks", tasksAreBounded},
		{"disk", diskIsBounded},
		{"memory", memoryIsBounded},
		{"stop", stopEndsEverything},
		{"death", deathIsNoticed},
		{"apart", sandboxesAreApart},
		{"destroy", destroyIsIdempotent},
		{"failed start", failedStartLeavesNothing},
		{"wall clock", wallClockEnds},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(h.host(t)) })
	}
}

func commandRuns(h *host) {
	b := h.start(h.plan("box"))
	if r := b.run("sh", "-c", "echo out; echo err >&2; exit 7"); r != (result{7, "out\n", "err\n"}) {
		h.Errorf("got %+v", r)
	}
	if r := b.run("no-such-command"); r.exit != 127 {
		h.Errorf("a command that is not there: exit %d", r.exit)
	}
	if r := b.run("/etc/passwd"); r.exit != 126 {
		h.Errorf("a file that can't be executed: exit %d", r.exit)
	}
	if r := b.sh("kill -TERM $$"); r.exit != 128+int(syscall.SIGTERM) {
		h.Errorf("a command ended by SIGTERM: exit %d", r.exit)
	}
	if r := b.run("printf", "%s|", "a b", "", "$HOME", "'", "\n"); r.out != "a b||$HOME|'|\n|" {
		h.Errorf("arguments arrived as %q", r.out)
	}
}

func identityIsTheAgents(h *host) {
	plan := h.plan("box")
	b := h.start(plan)
	who := plan.Spec.Identity
	for script, want := range map[string]string{
		"id -u": strconv.Itoa(who.UID), "id -g": strconv.Itoa(who.GID), "id -un": who.User,
		"cd && pwd": who.Home, "hostname": plan.Name, "pwd": forage.WorkspacePath,
		"touch ~/x && stat -c %u ~/x": strconv.Itoa(who.UID),
	} {
		if got := b.works(script); got != want {
			h.Errorf("%s: %q, want %q", script, got, want)
		}
	}
}

func environmentIsThePlans(h *host) {
	h.Setenv("FORAGE_TEST_SECRET", "the host's own")
	plan := h.plan("box")
	plan.Spec.Env["GIVEN"] = "a b\nc"
	b := h.start(plan)
	var want []string
	for name, value := range plan.Spec.Env {
		want = append(want, name+"="+value)
	}
	got := strings.Split(strings.TrimSuffix(b.run("env", "-0").out, "\x00"), "\x00")
	got = slices.DeleteFunc(got, func(entry string) bool { return strings.HasPrefix(entry, "PWD=") })
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		h.Errorf("environment is\n%q\nwant\n%q", got, want)
	}
}

func workspaceIsTheUsers(h *host) {
	os.WriteFile(filepath.Join(h.workspace, "theirs"), []byte("hello"), 0o640)
	b := h.start(h.plan("box"))
	if got := b.works("cat theirs"); got != "hello" {
		h.Errorf("the file holds %q", got)
	}
	b.works("echo more >> theirs && mkdir made && echo new > made/file && mv made moved && ln -s theirs link")
	info, err := os.Stat(filepath.Join(h.workspace, "moved/file"))
	if err != nil {
		h.Fatal(err)
	}
	if uid := int(info.Sys().(*syscall.Stat_t).Uid); uid != os.Getuid() {
		h.Errorf("what the agent made belongs to %d on the host, want %d", uid, os.Getuid())
	}
}

func workspaceCanBeReadOnly(h *host) {
	plan := h.plan("box")
	plan.Spec.Mounts[len(plan.Spec.Mounts)-1].Writable = false
	b := h.start(plan)
	b.fails("touch new")
	b.fails("rm -rf . ; mkdir x")
}

func mountsAreAsPlanned(h *host) {
	shown, file := filepath.Join(h.state, "shown"), filepath.Join(h.state, "file")
	if err := errors.Join(os.Mkdir(shown, 0o755), os.WriteFile(file, []byte("one file"), 0o644)); err != nil {
		h.Fatal(err)
	}
	plan := h.plan("box")
	plan.Spec.Mounts = append(plan.Spec.Mounts,
		forage.Mount{Source: shown, Target: "/deps/lib"}, forage.Mount{Source: shown, Target: "/deps/writable", Writable: true},
		forage.Mount{Source: file, Target: "/deps/file"}, forage.Mount{Source: filepath.Join(h.state, "absent"), Target: "/absent", Optional: true})
	b := h.start(plan)
	b.works("echo x > /deps/writable/new && cat /deps/lib/new && grep -q 'one file' /deps/file")
	b.fails("echo x > /deps/lib/new")
	b.fails("echo x > /deps/file")
	b.fails("test -e /absent")
	if _, err := os.Stat(filepath.Join(shown, "new")); err != nil {
		h.Error(err)
	}
}

// homeIsKept: what is in a kept home outlives the sandbox; of our own files, those that are there
// stay, and those that are renewed are ours.
func homeIsKept(h *host) {
	home := filepath.Join(h.state, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		h.Fatal(err)
	}
	h.give(home)
	start := func(name string) *box {
		plan := h.plan(name)
		plan.Spec.KeptHome = home
		plan.Spec.Files = append(plan.Spec.Files,
			forage.File{Path: "/home/agent/settings", Content: []byte("ours"), Mode: 0o600, Owned: true},
			forage.File{Path: "/home/agent/login", Content: []byte("ours"), Mode: 0o600, Owned: true, Renew: true})
		return h.start(plan)
	}
	b := start("box")
	b.works("cd && grep ours settings && grep ours login && echo mine > settings && ln -sf /workspace/victim login && echo talk > talk")
	b.stop()
	b = start("again")
	b.works("cd && grep mine settings && grep ours login && test ! -e /workspace/victim && grep talk talk")
	if !h.OwnKernel {
		b.works("grep ' /home/agent .*nosuid,nodev' /proc/self/mounts")
	}
}

func missingMountFails(h *host) {
	plan := h.plan("box")
	plan.Spec.Mounts = append(plan.Spec.Mounts, forage.Mount{Source: filepath.Join(h.state, "absent"), Target: "/absent"})
	if _, err := h.tryStart(plan); err == nil || !strings.Contains(err.Error(), "absent") {
		h.Errorf("a mount of nothing: %v", err)
	}
}

func filesAreThere(h *host) {
	plan := h.plan("box")
	plan.Spec.Files = append(plan.Spec.Files,
		forage.File{Path: "/etc/made/by-us", Content: []byte("made\n")},
		forage.File{Path: "/home/agent/.made", Content: []byte("made\n")})
	plan.Spec.Links = append(plan.Spec.Links, forage.Link{Path: "/deep/link", Target: "/etc/made/by-us"})
	b := h.start(plan)
	b.works("grep -qx made /etc/made/by-us && grep -qx made ~/.made && grep -qx made /deep/link")
	b.fails("echo changed > /etc/made/by-us")
	b.fails("echo changed > ~/.made")
}

func folderIsARootfs(h *host) {
	if !h.takes(forage.RootfsDir) {
		h.Skip("the runtime has no such root filesystem")
	}
	busybox, err := os.ReadFile("/bin/busybox")
	if err != nil {
		h.Skip("needs a static busybox: ", err)
	}
	root := filepath.Join(h.state, "root")
	if err := errors.Join(os.MkdirAll(filepath.Join(root, "bin"), 0o755), os.WriteFile(filepath.Join(root, "bin/busybox"), busybox, 0o755),
		os.Symlink("busybox", filepath.Join(root, "bin/sh")), os.Symlink("busybox", filepath.Join(root, "bin/cat"))); err != nil {
		h.Fatal(err)
	}
	plan := h.plan("box")
	plan.Spec.Rootfs = forage.Rootfs{Kind: forage.RootfsDir, Ref: root}
	plan.Spec.Mounts = plan.Spec.Mounts[len(plan.Spec.Mounts)-1:]
	plan.Spec.Links = nil
	b := h.start(plan)
	b.works("echo x > new && cat /etc/hosts")
	b.works("busybox rm /bin/cat && echo y > /bin/planted")
	b.fails("test -e /usr/bin")
	if _, err := os.Lstat(filepath.Join(root, "bin/cat")); err != nil {
		h.Errorf("the folder itself was changed: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(root, "bin/planted")); err == nil {
		h.Error("the folder itself was written to")
	}
}

func networkIsThePlans(h *host) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") }))
	defer server.Close()
	plan := h.plan("box")
	plan.Network = forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"allowed.example"}}
	plan.Spec.Network = forage.NetworkRestricted
	resolving(&plan, "allowed.example", 80, netip.MustParseAddrPort(server.Listener.Addr().String()))
	b := h.start(plan)
	if got := b.works("curl -sS http://allowed.example/"); got != "reached" {
		h.Errorf("through the proxy variables: %q", got)
	}
	if h.runtime.Info().Capabilities.TransparentProxy {
		if got := b.works("env -u http_proxy -u HTTP_PROXY -u all_proxy -u ALL_PROXY curl -sS --noproxy '*' http://allowed.example/"); got != "reached" {
			h.Errorf("without proxy variables: %q", got)
		}
	}
	b.fails("curl -sSf http://denied.example/")
	b.fails("curl -sSf --noproxy '*' http://denied.example/")
	b.fails("curl -sSf --noproxy '*' " + server.URL)
	b.works("python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 8123)); c = socket.create_connection((\"127.0.0.1\", 8123)); s.accept()'")
}

// connectionsAreWhole: each direction of a connection ends by itself, what is denied is reset, and
// names are resolved over UDP and TCP.
func connectionsAreWhole(h *host) {
	if !h.runtime.Info().Capabilities.TransparentProxy {
		h.Skip("programs have to heed proxy variables")
	}
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				text, _ := io.ReadAll(conn)
				conn.Write(text)
			}()
		}
	}()
	plan := h.plan("box")
	plan.Network = forage.Network{Mode: forage.NetworkRestricted, Allow: []string{"echo.example:7"}}
	plan.Spec.Network = forage.NetworkRestricted
	resolving(&plan, "echo.example", 7, netip.MustParseAddrPort(echo.Addr().String()))
	b := h.start(plan)
	b.works("getent ahosts echo.example && RES_OPTIONS=use-vc getent ahosts echo.example")
	b.fails("getent ahosts denied.example")
	const script = "import os, socket, threading\n" +
		"def one(size):\n" +
		"  s = socket.create_connection((\"echo.example\", 7)); d = os.urandom(size)\n" +
		"  s.sendall(d); s.shutdown(socket.SHUT_WR); got = b\"\".join(iter(lambda: s.recv(65536), b\"\"))\n" +
		"  assert got == d, len(got)\n" +
		"one(5000000)\n" +
		"ts = [threading.Thread(target=one, args=(1000,)) for _ in range(100)]\n" +
		"[t.start() for t in ts]; [t.join() for t in ts]\n" +
		"s = socket.create_connection((\"192.0.2.1\", 7))\n" +
		"try: s.recv(1); raise SystemExit(\"a denied connection is not reset\")\n" +
		"except ConnectionResetError: pass\n"
	b.works("python3 -c '" + script + "'")
}

// sessionIsLogged: what the agent's window shows is in the log on the host.
func sessionIsLogged(h *host) {
	plan := h.plan("box")
	plan.Spec.Session, plan.Spec.Command = true, []string{"sh", "-c", "echo shown in the window; exec sleep 1000"}
	h.start(plan)
	h.eventually("the log has what the window shows", func() bool {
		text, err := os.ReadFile(filepath.Join(h.state, "box.log"))
		return err == nil && strings.Contains(string(text), "shown in the window")
	})
}

func tasksAreBounded(h *host) {
	plan := h.plan("box")
	plan.Spec.Limits.TasksMax = 40
	if !h.runtime.Info().Capabilities.TasksMax {
		if _, err := h.tryStart(plan); !errors.Is(err, forage.ErrUnsupported) {
			h.Fatalf("a limit that the runtime can't enforce: %v", err)
		}
		return
	}
	b := h.start(plan)
	script := "import os, time\nn = 0\ntry:\n  while n < 500:\n    if os.fork() == 0: time.sleep(100); os._exit(0)\n    n += 1\nexcept OSError: pass\nprint(n)"
	forked, err := strconv.Atoi(b.works("python3 -c '" + script + "'"))
	if err != nil || forked < 10 || forked > 40 {
		h.Errorf("%d processes were made under tasksMax = 40 (%v)", forked, err)
	}
	// The guest is not within the bound: it still stops the sandbox.
	b.stop()
}

func diskIsBounded(h *host) {
	plan := h.plan("box")
	plan.Spec.Limits.DiskMax = 8 << 20
	b := h.start(plan)
	for _, dir := range []string{"/tmp", "/home/agent", "/var/tmp", "/dev/shm", "/run"} {
		b.fails("head -c 9M /dev/zero > " + dir + "/big")
		b.works("rm -f " + dir + "/big")
	}
	b.works("head -c 5M /dev/zero > /tmp/half")
	b.fails("head -c 5M /dev/zero > /dev/shm/half") // one bound for all of them
	b.fails("i=0; while : > /tmp/inode$i; do i=$((i+1)); [ $i -lt 100000 ] || exit 0; done; exit 1")
}

func memoryIsBounded(h *host) {
	plan := h.plan("box")
	plan.Spec.Limits.MemoryMax = 64 << 20
	if err := h.runtime.Supports(plan.Spec); err != nil {
		if !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) == "" {
			h.Errorf("refused without a kind and a hint: %v", err)
		}
		if _, err := h.tryStart(plan); err == nil {
			h.Error("a limit that can't be enforced was ignored")
		}
		return
	}
	b := h.start(plan)
	if h.OwnKernel { // whose own memory it is: the sandbox ends
		client, err := b.client()
		if err != nil {
			h.Fatal(err)
		}
		exit, err := client.Run(h.Context(), guestclient.Command{Argv: []string{"python3", "-c", "b = bytearray(256 << 20)"}}, guestclient.Stdio{})
		if err == nil && exit.Code() == 0 {
			h.Error("256 MiB fitted into 64")
		}
		return
	}
	b.fails("python3 -c 'b = bytearray(256 << 20); print(len(b))'")
	b.works("echo still here")
}

func stopEndsEverything(h *host) {
	b := h.start(h.plan("box"))
	marker := "4242" + strconv.Itoa(os.Getpid())
	daemon := "sleep\x00" + marker + "\x00"
	b.works("(setsid setsid sh -c 'trap \"\" TERM HUP INT; sleep " + marker + "' >/dev/null 2>&1 </dev/null &)")
	if !h.OwnKernel {
		h.eventually("the daemon is found on the host", func() bool { return hostSees(daemon) })
	}
	b.stop()
	if hostSees(daemon) {
		h.Error("a daemon outlived the sandbox")
	}
	select {
	case <-b.sandbox.Done():
	default:
		h.Error("stopped, but not done")
	}
	entries, err := os.ReadDir(b.dir)
	if err != nil || len(entries) > 3 { // the lock and the sockets, which the lock's holder removes
		h.Errorf("left in the run-time folder: %v (%v)", entries, err)
	}
}

// hostSees says whether a process of this host has that in its command line.
func hostSees(text string) bool {
	paths, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return false
	}
	for _, path := range paths {
		if line, err := os.ReadFile(path); err == nil && strings.Contains(string(line), text) {
			return true
		}
	}
	return false
}

func deathIsNoticed(h *host) {
	b := h.start(h.plan("box"))
	response, err := clientOf(b).Status(h.Context())
	if err != nil || !response.Ready {
		h.Fatalf("Status = %+v, %v", response, err)
	}
	if response.GuestPID == 0 {
		h.Skip("the runtime's guest is no process of this host")
	}
	if err := unix.Kill(response.GuestPID, unix.SIGKILL); err != nil {
		h.Fatal(err)
	}
	select {
	case <-b.sandbox.Done():
	case <-time.After(patience):
		h.Fatal("nobody noticed that the guest died")
	}
	if reason, err := b.sandbox.Ended(); err == nil || reason == "" {
		h.Errorf("ended because %q, %v", reason, err)
	}
}

func sandboxesAreApart(h *host) {
	one, two := h.start(h.plan("one")), h.start(h.plan("two"))
	one.works("echo secret > /tmp/x; echo secret > /dev/shm/x; (sleep 77 >/dev/null 2>&1 &); python3 -c 'pass'")
	two.fails("cat /tmp/x || cat /dev/shm/x")
	two.fails("pgrep -f '[s]leep 77'")
	one.works("python3 - >/dev/null 2>&1 <<'E' &\nimport socket,time\ns=socket.socket(socket.AF_UNIX); s.bind('\\0apart'); s.listen(); open('/tmp/listens', 'w'); time.sleep(1000)\nE\nuntil test -e /tmp/listens; do sleep 0.01; done")
	two.fails("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0apart')\"")
}

func destroyIsIdempotent(h *host) {
	b := h.start(h.plan("box"))
	b.stop()
	for range 2 {
		if err := h.runtime.Destroy(h.Context(), "box"); err != nil {
			h.Error(err)
		}
	}
	names, err := h.runtime.List(h.Context())
	if err != nil || slices.Contains(names, "box") {
		h.Errorf("List = %v, %v", names, err)
	}
	if err := h.runtime.Destroy(h.Context(), "never-there"); err != nil {
		h.Errorf("destroying what is not there: %v", err)
	}
}

func failedStartLeavesNothing(h *host) {
	plan := h.plan("box")
	marker := "7878" + strconv.Itoa(os.Getpid())
	plan.Spec.Init = []string{"(sleep " + marker + " >/dev/null 2>&1 &); exit 3"}
	_, err := h.tryStart(plan)
	if forage.ExitCode(err) != 5 {
		h.Errorf("an init command that fails: %v", err)
	}
	if hostSees("sleep\x00" + marker + "\x00") {
		h.Error("what it had started still runs")
	}
	names, err := h.runtime.List(h.Context())
	if err != nil || slices.Contains(names, "box") {
		h.Errorf("List = %v, %v", names, err)
	}
}

func wallClockEnds(h *host) {
	plan := h.plan("box")
	plan.Spec.Limits.WallClock = 200 * time.Millisecond
	b := h.start(plan)
	select {
	case <-b.sandbox.Done():
	case <-time.After(patience):
		h.Fatal("the sandbox outlived its wall clock")
	}
	if reason, err := b.sandbox.Ended(); err != nil || !strings.Contains(reason, "wall clock") {
		h.Errorf("ended because %q, %v", reason, err)
	}
}
