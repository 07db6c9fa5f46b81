package child

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

func TestDiskMax(t *testing.T) {
	spec := baseSpec(t, makeTree(t))
	spec.Limits.DiskMax = 8 << 20
	o := inside(t, spec, `
		for d in /tmp /home/agent /run /dev/shm /var/tmp; do
			dd if=/dev/zero of=$d/big bs=1M count=20 2>/dev/null && echo $d took it all; rm -f $d/big; done
		dd if=/dev/zero of=/tmp/half bs=1M count=5 2>/dev/null; dd if=/dev/zero of=/home/agent/half bs=1M count=5 2>/dev/null && echo shared not
		rm /tmp/half /home/agent/half
		i=0; while [ $i -lt 40000 ]; do true >/tmp/f$i || break; i=$((i+1)); done 2>/dev/null; [ $i -lt 20000 ] && [ $i -gt 10000 ] && echo bounded`)
	wantOut(t, o, "bounded")
}

func TestTasksMax(t *testing.T) {
	spec := baseSpec(t, makeTree(t))
	spec.Limits.TasksMax = 40
	o := inside(t, spec, `grep processes /proc/self/limits
		i=0; while [ $i -lt 300 ]; do sleep 1000 >/dev/null 2>&1 & i=$((i+1)); done 2>/dev/null; true`)
	if got := strings.Fields(o.Out); len(got) < 3 || got[2] != strconv.Itoa(40+taskHeadroom) {
		t.Errorf("%q", o.Out)
	}
	// A sandbox next to it has its own count.
	wantOut(t, inside(t, baseSpec(t, makeTree(t)), "true & wait; echo ok"), "ok")
}

// The caller's own programs have a part of the caller's processes left.
func TestTasks(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		max        int64
		soft, want uint64
	}{
		{0, unix.RLIM_INFINITY, defaultTasks},
		{0, 4096, 1024},
		{512, 4096, 512 + taskHeadroom},
		{4096, 4096, 3072},
		{512, unix.RLIM_INFINITY, 512 + taskHeadroom},
	} {
		if got := tasks(test.max, test.soft); got != test.want {
			t.Errorf("of %d, with a limit of %d: %d, want %d", test.max, test.soft, got, test.want)
		}
	}
}

func TestMemoryMax(t *testing.T) {
	spec := baseSpec(t, makeTree(t))
	spec.Limits.MemoryMax = 64 << 20
	if err := local("").Supports(spec); err != nil {
		if forage.ExitCode(err) != 6 || forage.Hint(err) == "" {
			t.Errorf("refused with %v (hint %q)", err, forage.Hint(err))
		}
		if _, err := boxed(t, spec, script{}); forage.ExitCode(err) != 6 {
			t.Errorf("started, or %v", err)
		}
		t.Skipf("this host can't: %v", err)
	}
	i, err := boxed(t, spec, script{Argv: []string{"/bin/sh", "-c", "dd if=/dev/zero of=/tmp/big bs=1M count=200; echo ended"}})
	must(t, err)
	ref := i.group.Ref()
	if ref == "" {
		t.Fatal("no group")
	}
	f, _, err := i.Control().Receive()
	if err == nil && !strings.Contains(string(f.Body), `137`) && strings.Contains(string(f.Body), "200+0 records out") {
		t.Errorf("200 MiB fit: %s", f.Body)
	}
	must(t, i.Stop(t.Context(), 0))
	folder := strings.Split(strings.TrimPrefix(ref, "cgroup:"), ":")[0]
	if _, err := os.Stat(folder); err == nil {
		t.Errorf("%s is left", folder)
	}
}

// TestGroups: an ordinary user's supplementary groups stay outside, where the
// system lets its users drop them. It needs root, to make such a user.
func TestGroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to make a user with groups")
	}
	for _, program := range []string{"newgidmap", "useradd", "setpriv"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	name := "forage-groups-" + strconv.Itoa(os.Getpid()) // so that two runs on one machine don't meet
	if out, err := exec.Command("useradd", "-m", "-G", "daemon,bin", name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	defer exec.Command("userdel", "-r", "-f", name).Run()
	self, err := os.Executable()
	must(t, err)
	copied := filepath.Join(t.TempDir(), "native.test")
	text, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(copied, text, 0o755))
	for dir := filepath.Dir(copied); dir != filepath.Clean(os.TempDir()) && dir != "/"; dir = filepath.Dir(dir) {
		must(t, os.Chmod(dir, 0o755))
	}
	cmd := exec.Command("setpriv", "--reuid", name, "--regid", name, "--init-groups", copied, "-test.run", "^TestGroupsInside$", "-test.v")
	cmd.Env = []string{"TMPDIR=/tmp", "PATH=/usr/bin:/bin:/usr/sbin:/sbin", "WANT_GROUPS=1"}
	cmd.Dir = "/"
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestGroupsInside is the part of TestGroups that runs as the user.
func TestGroupsInside(t *testing.T) {
	if os.Getenv("WANT_GROUPS") == "" {
		t.Skip("is run by TestGroups")
	}
	groups, err := os.Getgroups()
	must(t, err)
	if len(groups) < 3 {
		t.Fatalf("groups: %v", groups)
	}
	dir := makeTree(t, "of-group")
	file := filepath.Join(dir, "of-group")
	must(t, os.Chown(file, -1, groups[len(groups)-1]))
	must(t, os.Chmod(file, 0o040))
	o := inside(t, baseSpec(t, dir), "id -G; grep Groups /proc/self/status; cat /workspace/of-group 2>/dev/null && echo readable; true")
	wantOut(t, o, strconv.Itoa(os.Getgid())+"\nGroups:")
}

// TestOwners: root's sandboxes work as another user, on files that keep their owners.
func TestOwners(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("an ordinary user has but one identity")
	}
	for _, owner := range []int{0, 1, 12345, 54321} {
		t.Run(strconv.Itoa(owner), func(t *testing.T) {
			dir := makeTree(t, "closed/x")
			must(t, os.Chmod(filepath.Join(dir, "closed"), 0o700))
			for _, path := range []string{dir, filepath.Join(dir, "closed"), filepath.Join(dir, "closed/x")} {
				must(t, os.Chown(path, owner, owner))
			}
			foreign := filepath.Join(dir, "foreign")
			must(t, os.WriteFile(foreign, []byte("f"), 0o666))
			must(t, os.Chmod(foreign, 0o666))
			must(t, os.Chown(foreign, 777, 777))
			wantOut(t, inside(t, baseSpec(t, dir), `cd /workspace; echo new >new; mkdir dir; echo more >>closed/x; echo g >>foreign
				stat -c %U . new closed/x; chmod 600 foreign 2>/dev/null && echo changed; true`), "agent\nagent\nagent")
			for path, want := range map[string]int{"new": owner, "dir": owner, "closed/x": owner, "foreign": 777} {
				var st unix.Stat_t
				must(t, unix.Lstat(filepath.Join(dir, path), &st))
				if int(st.Uid) != want || int(st.Gid) != want {
					t.Errorf("%s belongs to %d:%d", path, st.Uid, st.Gid)
				}
			}
		})
	}
}

// TestNesting: namespaces inside, where a template allows them, open nothing that was closed.
func TestNesting(t *testing.T) {
	const try = `unshare -Urm sh -c '
		mount -t tmpfs t /tmp && echo tmpfs
		umount /workspace/.git 2>/dev/null && echo uncovered
		umount -l /workspace/.git 2>/dev/null && echo uncovered lazily
		mount -o remount,rw,bind /workspace/.git 2>/dev/null && echo remounted
		mount -o remount,rw,bind / 2>/dev/null && echo remounted root
		mount -o remount,suid,dev,bind /usr 2>/dev/null && echo remounted usr
		(echo x >/workspace/.git/config) 2>/dev/null && echo wrote
		umount -l /proc 2>/dev/null && echo no proc; true'`
	dir := makeTree(t, ".git/config", "x")
	o := inside(t, baseSpec(t, dir), "("+try+") 2>&1; true")
	if strings.Contains(o.Out, "tmpfs\n") {
		t.Errorf("not allowed, and done: %s", o.Out)
	}
	spec := baseSpec(t, dir)
	spec.Security.NestedNamespaces = true
	wantOut(t, inside(t, spec, try), "tmpfs")
	wantOut(t, inside(t, spec, "unshare -Urmpf --mount-proc sh -c 'ls -d /proc/1'"), "/proc/1")
}

// TestNestingKeepsMounts: a mount point can be renamed from a namespace in which it is none. No
// namespace inside is made one by leaving the sandbox's root behind, with a folder of it still
// open.
func TestNestingKeepsMounts(t *testing.T) {
	const try = `cat >/tmp/try.py <<'END'
import ctypes, os
libc = ctypes.CDLL(None)
workspace = os.open('/workspace', os.O_RDONLY | os.O_DIRECTORY)
libc.mount(b'none', b'/', None, 0x40000 | 0x4000, None)
libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None)
os.mkdir('/tmp/old')
os.chdir('/tmp')
if libc.pivot_root(b'.', b'old') == 0: print('another root')
os.chdir('/')
libc.umount2(b'/old', 2)
libc.umount2(b'/', 2)
for name in b'.git', b'.envrc':
	if libc.renameat(workspace, name, workspace, b'moved') == 0: print('renamed')
END
unshare -Urm python3 /tmp/try.py`
	dir := makeTree(t, ".git/config", ".envrc")
	spec := protecting(baseSpec(t, dir), ".envrc")
	spec.Security.NestedNamespaces = true
	wantOut(t, inside(t, spec, try), "another root")
	for _, name := range []string{".git/config", ".envrc"} {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
			t.Errorf("%s is %q now, %v", name, text, err)
		}
	}
}
