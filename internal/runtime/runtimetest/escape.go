package runtimetest

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/probe"
	"forage/internal/supervisor"
	"forage/internal/unixsock"
)

// Escape attacks sandboxes of the runtime from inside, as an agent would.
func Escape(t *testing.T, h Harness) {
	for _, test := range []struct {
		name string
		run  func(*host)
	}{
		{"walls", wallsHold},
		{"links out of the workspace", linksLeadNowhere},
		{"swapped mount source", swappedSourceIsRefused},
		{"sockets in mounted trees", socketsAreMasked},
		{"git metadata", gitMetadataIsReadOnly},
		{"protected paths", protectedStays},
		{"metadata of its own", metadataStays},
		{"mounts", mountsCannotBeUndone},
		{"setuid", setuidIsUseless},
		{"quotas of the user", quotasAreTheSandboxes},
		{"fork bomb without tasksMax", forkBombIsBounded},
		{"host's abstract sockets", abstractSocketsAreApart},
		{"guest", guestSurvives},
		{"terminal", terminalIsItsOwn},
		{"debuggers", debuggersWork},
		{"control files", oursAreOutOfReach},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(h.host(t)) })
	}
}

func clientOf(b *box) supervisor.Client { return supervisor.Client{Dir: b.dir} }

// withProgram adds our own program, which holds the probes.
func (h *host) withProgram(plan *forage.Plan) string {
	plan.Spec.Mounts = append(plan.Spec.Mounts, forage.Mount{Source: h.Program, Target: "/forage-probe"})
	return "/forage-probe"
}

func wallsHold(h *host) {
	plan := h.plan("box")
	program := h.withProgram(&plan)
	b := h.start(plan)
	r := b.run(program, probe.Argument)
	var results []probe.Result
	if err := json.Unmarshal([]byte(r.out), &results); err != nil || len(results) < 50 {
		h.Fatalf("exit %d, %d results, %v\n%s%s", r.exit, len(results), err, r.out, r.err)
	}
	for _, result := range results {
		if device := strings.HasPrefix(result.Detail, "/dev/"); result.Wall == "seeing the host's files" && h.OwnKernel && device {
			continue
		}
		if !result.Held && !(h.OwnKernel && slices.Contains(ownKernels, result.Wall)) {
			h.Errorf("%s: %s: %s", result.Group, result.Wall, result.Detail)
		}
	}
}

// ownKernels are walls that a kernel of the sandbox's own is without: it shows itself, or makes
// what the host does not see. Which of its own processes the agent ends is its own business. Of the
// host's files, it has only devices of its own.
var ownKernels = []string{
	"reading /proc/cmdline", "mounts with setuid programs", "mounts with devices",
	"planting a FIFO in the workspace", "planting a socket in the workspace", "signalling the guest", "the host's control groups",
}

func linksLeadNowhere(h *host) {
	secret := filepath.Join(h.state, "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o644); err != nil {
		h.Fatal(err)
	}
	b := h.start(h.plan("box"))
	b.works("ln -s " + secret + " link; ln -s / root; ln -s ../../../../../../../../../" + secret + " chain")
	b.fails("cat link")
	b.fails("cat chain")
	b.fails("cat root/" + secret)
	b.fails("cat /proc/self/root/" + secret)
	b.fails("cat /proc/1/root/" + secret)
	b.fails("cat /proc/1/cwd/" + secret)
}

func swappedSourceIsRefused(h *host) {
	source := filepath.Join(h.state, "source")
	outside := filepath.Join(h.state, "outside")
	for _, dir := range []string{source, outside} {
		if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
			h.Fatal(err)
		}
	}
	for name, swapped := range map[string]string{"parent": source, "folder": filepath.Join(source, "sub")} {
		plan := h.plan(name)
		plan.Spec.Mounts = append(plan.Spec.Mounts, forage.Mount{Source: filepath.Join(source, "sub"), Target: "/shown"})
		if err := os.Rename(swapped, swapped+".was"); err != nil {
			h.Fatal(err)
		}
		if err := os.Symlink(outside, swapped); err != nil {
			h.Fatal(err)
		}
		if _, err := h.tryStart(plan); err == nil {
			h.Errorf("a link at %s was followed", swapped)
		}
		os.Remove(swapped)
		os.Rename(swapped+".was", swapped)
	}
}

func socketsAreMasked(h *host) {
	listener, err := unixsock.Listen(filepath.Join(h.workspace, "host.sock"))
	if err != nil {
		h.Fatal(err)
	}
	defer listener.Close()
	if err := unix.Mkfifo(filepath.Join(h.workspace, "fifo"), 0o666); err != nil {
		h.Fatal(err)
	}
	reached := make(chan struct{})
	go func() {
		if conn, err := listener.Accept(); err == nil {
			conn.Close()
			close(reached)
		}
	}()
	tools := filepath.Join(h.state, "tools")
	os.Mkdir(tools, 0o755)
	if err := unix.Mkfifo(filepath.Join(tools, "fifo"), 0o666); err != nil {
		h.Fatal(err)
	}
	plan := h.plan("box")
	plan.Spec.Mounts = append(plan.Spec.Mounts, forage.Mount{Source: tools, Target: "/tools", System: true})
	if b, err := h.tryStart(plan); err == nil { // refusing it altogether is fine too
		b.fails("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('host.sock')\"")
		b.fails("test -p fifo")
		b.works("test -p /tools/fifo")
		b.fails("sh -c ': <>/tools/fifo'")
		for name, plant := range map[string]string{"planted": "mkfifo planted", "planted.sock": "python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('planted.sock')\""} {
			if !h.OwnKernel {
				b.fails(plant)
			}
			b.sh(plant)
			if _, err := os.Lstat(filepath.Join(h.workspace, name)); err == nil {
				h.Errorf("the host sees %s", name)
			}
		}
		b.works("python3 -c \"import socket; socket.socket(socket.AF_UNIX).bind('/tmp/own.sock')\"")
	}
	select {
	case <-reached:
		h.Error("a process of the host was reached through a socket in the workspace")
	default:
	}
}

func gitMetadataIsReadOnly(h *host) {
	hooks := filepath.Join(h.workspace, ".git/hooks")
	if err := os.MkdirAll(hooks, 0o755); err != nil {
		h.Fatal(err)
	}
	config := filepath.Join(h.workspace, ".git/config")
	if err := os.WriteFile(config, []byte("[core]\n"), 0o644); err != nil {
		h.Fatal(err)
	}
	b := h.start(h.plan("box"))
	b.fails("echo '#!/bin/sh' > .git/hooks/pre-commit")
	b.fails("echo '[core] fsmonitor = evil' >> .git/config")
	b.fails("rm -rf .git")
	b.fails("mv .git elsewhere")
	b.fails("mv .git/config .git/was")
	if text, err := os.ReadFile(config); err != nil || string(text) != "[core]\n" {
		h.Errorf("the configuration is %q now (%v)", text, err)
	}
}

func mountsCannotBeUndone(h *host) {
	plan := h.plan("box")
	b := h.start(plan)
	b.fails("mount -o remount,rw,bind /usr")
	b.fails("mount -o remount,suid,dev,bind /tmp")
	b.fails("umount -l /proc/sys || umount -l /usr || umount -l /workspace")
	b.fails("mount --bind /tmp /usr")
	b.fails("mount -t proc proc /tmp || mount -t tmpfs t /tmp || mount -t sysfs s /tmp")
	b.fails("unshare -r true || unshare -m true || unshare -U true")
	b.fails("unshare -rm mount --bind /tmp /usr")
	b.fails("nsenter -t 1 -a true || nsenter -t 1 -m true || nsenter -t 1 -U true")
	b.fails("chroot / true")
}

func setuidIsUseless(h *host) {
	b := h.start(h.plan("box"))
	b.fails("su -c id root </dev/null")
	b.fails("cp /bin/sh /workspace/suid && chmod u+s /workspace/suid && test -u /workspace/suid")
	b.fails("cp /bin/sh /workspace/sgid && chmod g+s /workspace/sgid && test -g /workspace/sgid")
	b.fails("mknod /workspace/null c 1 3")
}

// quotasAreTheSandboxes: what the kernel counts for each user must not run out
// on the host because of what runs inside.
func quotasAreTheSandboxes(h *host) {
	if h.OwnKernel {
		h.Skip("its kernel counts for itself")
	}
	b := h.start(h.plan("box"))
	b.works(`cat > /tmp/hold.py <<'END'
import ctypes, os, time
libc = ctypes.CDLL(None, use_errno=True)
def take(call):
    for n in range(200000):
        if call(n) < 0: return n
    return n
timer = ctypes.c_int()
counts = [
    take(lambda n: libc.inotify_init1(0)),
    take(lambda n: libc.timer_create(1, None, ctypes.byref(timer))),
    take(lambda n: libc.mq_open(b"/q%d" % n, os.O_CREAT | os.O_RDWR, 0o600, None)),
    take(lambda n: libc.open(b"/dev/ptmx", os.O_RDWR | os.O_NOCTTY)),
    libc.mlock(ctypes.create_string_buffer(2 << 20), 2 << 20),
]
open('/tmp/held.new', 'w').write(' '.join(map(str, counts)))
os.rename('/tmp/held.new', '/tmp/held')
time.sleep(600)
END
python3 /tmp/hold.py >/dev/null 2>&1 </dev/null & for i in $(seq 600); do test -e /tmp/held && exit; sleep 0.1; done; exit 1`)
	before := strings.Fields(b.works("cat /tmp/held")) // and held still
	h.Logf("inotify instances, timers, message queues and terminals taken inside, and whether memory was locked: %s", before)
	// Limits are compared with what the user has in all sandboxes together; others of the same user
	// may run just now.
	all, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	if err != nil {
		h.Fatal(err)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(string(all)))
	if n, countErr := strconv.Atoi(before[0]); err != nil || countErr != nil || n > limit/4 {
		h.Errorf("%s inotify instances inside leave the host too few: its limit is %d (%v)", before[0], limit, err)
	}
	for i, q := range []struct {
		name    string
		which   int
		perItem uint64 // what one takes, at least
	}{{"timers", unix.RLIMIT_SIGPENDING, 1}, {"message queues", unix.RLIMIT_MSGQUEUE, 10 * 8192}} {
		var limit unix.Rlimit
		if err := unix.Getrlimit(q.which, &limit); err != nil {
			h.Fatal(err)
		}
		n, err := strconv.ParseUint(before[i+1], 10, 64)
		if err != nil || n*q.perItem > limit.Cur/2 {
			h.Errorf("%s %s inside leave the host too few: its limit is %d (%v)", before[i+1], q.name, limit.Cur, err)
		}
	}
	if n, err := strconv.Atoi(before[3]); err != nil || n > 500 || before[4] != "-1" {
		h.Errorf("%s terminals, and locking memory gives %s", before[3], before[4])
	}
	watches, err := os.ReadFile("/proc/sys/fs/inotify/max_user_watches")
	if err != nil {
		h.Fatal(err)
	}
	inside, errInside := strconv.Atoi(b.works("cat /proc/sys/user/max_inotify_watches"))
	if all, err := strconv.Atoi(strings.TrimSpace(string(watches))); err != nil || errInside != nil || inside > all/4 {
		h.Errorf("%d of %d inotify watches may be had inside (%v, %v)", inside, all, err, errInside)
	}
	h.start(h.plan("other")) // signals all of its threads on the way
}

// forkBombIsBounded even where the template says nothing about processes.
func forkBombIsBounded(h *host) {
	b := h.start(h.plan("box"))
	if n, err := strconv.Atoi(b.works("bash -c 'ulimit -u'")); err != nil || n > 10_000 {
		h.Errorf("the sandbox may make %d processes (%v)", n, err)
	}
}

func abstractSocketsAreApart(h *host) {
	name := "forage-runtimetest-" + strconv.Itoa(os.Getpid())
	listener, err := net.Listen("unix", "@"+name)
	if err != nil {
		h.Fatal(err)
	}
	defer listener.Close()
	b := h.start(h.plan("box"))
	b.fails("python3 -c \"import socket; socket.socket(socket.AF_UNIX).connect('\\0" + name + "')\"")
}

// guestSurvives: whatever it is sent, the guest serves on, or all ends at once.
func guestSurvives(h *host) {
	if h.OwnKernel {
		h.Skip("the agent may end the sandbox")
	}
	b := h.start(h.plan("box"))
	b.works("for s in 1 2 3 5 6 7 8 9 10 11 12 13 14 15 19 20 21 22 24 25 31; do kill -$s 1; done; kill -KILL -1; true")
	b.works("echo still here")
	b.fails("cat /proc/1/environ || cat /proc/1/maps || ls /proc/1/fd/ || cat /proc/1/mem")
	b.fails("echo 1000 > /proc/1/oom_score_adj")
}

func terminalIsItsOwn(h *host) {
	b := h.start(h.plan("box"))
	if got := b.works("ls -l /proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 | grep -vc pipe: || true"); got != "0" {
		h.Errorf("%s of the standard streams are no pipes of ours: %s", got, b.works("ls -l /proc/self/fd/"))
	}
	b.fails("test -c /dev/console || test -e /dev/tty0 || test -e /dev/tty1")
}

func debuggersWork(h *host) {
	b := h.start(h.plan("box"))
	if b.sh("command -v strace").exit != 0 {
		h.Skip("no strace on this host")
	}
	if out := b.works("strace -f -e trace=write -o /tmp/trace sh -c 'echo traced' && cat /tmp/trace"); !strings.Contains(out, "write(1") {
		h.Errorf("strace inside saw %q", out)
	}
}

// oursAreOutOfReach: nothing of the host's side has a name inside.
func oursAreOutOfReach(h *host) {
	b := h.start(h.plan("box"))
	for _, path := range []string{h.state, h.runDir, b.dir, "/run/firefly-forage", "/var/lib/firefly-forage"} {
		b.fails("ls " + path)
	}
	out := b.works("find / -xdev -type s 2>/dev/null; find /run /tmp -type s 2>/dev/null; true")
	for _, name := range []string{"control.sock", "ssh.sock"} {
		if strings.Contains(out, name) {
			h.Errorf("a socket of ours is visible: %s", out)
		}
	}
}
