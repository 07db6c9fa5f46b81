package seccomp

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// The tests run this binary again; roleEnv says what to do under the filter.
const roleEnv = "FORAGE_SECCOMP_TEST"

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleEnv); role {
	case "exec", "nested-exec": // the rest of the arguments is a command
		os.Unsetenv(roleEnv)
		install(Options{NestedNamespaces: role == "nested-exec"})
		path, err := exec.LookPath(os.Args[1])
		if err == nil {
			err = syscall.Exec(path, os.Args[1:], os.Environ())
		}
		panic(err)
	case "foreign":
		install(Options{})
		enterForeign()
		os.Stdout.WriteString("survived")
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func install(o Options) {
	filter, err := Filter(o)
	if err == nil {
		err = Install(filter)
	}
	if err != nil {
		panic(err)
	}
}

// under runs a command under the filter, in English and without the caller's git settings.
func under(t *testing.T, role string, argv ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("/proc/self/exe", argv...)
	env := slices.DeleteFunc(os.Environ(), func(variable string) bool { return strings.HasPrefix(variable, "GIT_") })
	cmd.Env = append(env, roleEnv+"="+role, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8", "LANGUAGE=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestKernel(t *testing.T) {
	out, err := under(t, "exec", "/proc/self/exe", "-test.run=^TestInside$", "-test.v")
	if err != nil || !strings.Contains(out, "--- PASS: TestInside") {
		t.Errorf("%v\n%s", err, out)
	}
}

// call makes a system call with all 64 bits of its arguments as given.
func call(nr uintptr, args ...uintptr) unix.Errno {
	var a [6]uintptr
	copy(a[:], args)
	r, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno == 0 && (nr == unix.SYS_SOCKET || nr == unix.SYS_OPENAT) {
		unix.Close(int(r))
	}
	return errno
}

func cstring(s string) uintptr {
	b := append([]byte(s), 0)
	cstrings = append(cstrings, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// cstrings stay where they are: a number keeps nothing from being collected, or moved with a stack.
var cstrings [][]byte

// TestInside attacks the filter that the process was started under.
func TestInside(t *testing.T) {
	if v, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0); err != nil || v != 1 {
		t.Skip("runs under the filter, started by TestKernel")
	}
	const high = 0xdead << 32
	atCWD := ^uintptr(0) - 99 // AT_FDCWD
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	testdir.Must(t, os.WriteFile(file, nil, 0o644))
	for _, tc := range []struct {
		name string
		got  unix.Errno
		want unix.Errno
	}{
		{"vsock", call(unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0), unix.EAFNOSUPPORT},
		{"vsock with high bits", call(unix.SYS_SOCKET, high|unix.AF_VSOCK, unix.SOCK_STREAM, 0), unix.EAFNOSUPPORT},
		{"alg", call(unix.SYS_SOCKET, unix.AF_ALG, unix.SOCK_SEQPACKET, 0), unix.EAFNOSUPPORT},
		{"packet with high bits", call(unix.SYS_SOCKET, high|unix.AF_PACKET, unix.SOCK_RAW, 0), unix.EAFNOSUPPORT},
		{"netfilter", call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, high|unix.NETLINK_NETFILTER), unix.EPROTONOSUPPORT},
		{"route", call(unix.SYS_SOCKET, unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE), 0},
		{"tcp", call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, 0), 0},
		{"mptcp", call(unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), unix.EPROTONOSUPPORT},
		{"user namespace", call(unix.SYS_UNSHARE, high|unix.CLONE_NEWUSER), unix.EPERM},
		{"clone3", call(unix.SYS_CLONE3, 0, 0), unix.ENOSYS},
		{"mount", call(unix.SYS_MOUNT, cstring("x"), cstring(dir), cstring("tmpfs"), 0, 0), unix.EPERM},
		{"io_uring", call(unix.SYS_IO_URING_SETUP, 8, 0), unix.ENOSYS},
		{"bpf", call(unix.SYS_BPF, 0, 0, 0), unix.EPERM},
		{"keyring", call(unix.SYS_KEYCTL, 0, 0xfffffffd, 0), unix.EPERM},
		{"kernel log", call(unix.SYS_SYSLOG, 10, 0, 0), unix.EPERM},
		{"pipe size", call(unix.SYS_FCNTL, 0, high|unix.F_SETPIPE_SZ, 1<<20), unix.EPERM},
		{"terminal input", call(unix.SYS_IOCTL, 0, high|unix.TIOCSTI, cstring("x")), unix.EPERM},
		{"limits of PID 1", call(unix.SYS_PRLIMIT64, 1, unix.RLIMIT_CORE, 0, 0), unix.EPERM},
		{"own limits", call(unix.SYS_PRLIMIT64, 0, unix.RLIMIT_CORE, 0, 0), 0},
		{"setuid", call(unix.SYS_FCHMODAT, atCWD, cstring(file), 0o4755), unix.EPERM},
		{"setuid by fchmodat2", call(unix.SYS_FCHMODAT2, atCWD, cstring(file), high|0o4755, 0), unix.EPERM},
		{"chmod", call(unix.SYS_FCHMODAT, atCWD, cstring(file), 0o755), 0},
		{"a setuid file", call(unix.SYS_OPENAT, atCWD, cstring(file+"2"), unix.O_CREAT|unix.O_WRONLY, 0o4755), unix.EPERM},
		{"a file", call(unix.SYS_OPENAT, atCWD, cstring(file+"3"), unix.O_CREAT|unix.O_WRONLY, 0o755), 0},
		{"a disk", call(unix.SYS_MKNODAT, atCWD, cstring(file+"4"), unix.S_IFBLK|0o600, 0x800), unix.EPERM},
		{"openat2", call(unix.SYS_OPENAT2, atCWD, cstring(file), 0, 0), unix.ENOSYS},
		{"next year's call", call(1000), unix.ENOSYS},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, tc.got, tc.want)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode()&os.ModeSetuid != 0 {
		t.Errorf("the file is %v, %v", info.Mode(), err)
	}
	if runtime.GOARCH == "amd64" {
		if got := call(0x40000000 | unix.SYS_GETPID); got != unix.ENOSYS {
			t.Errorf("x32: %v", got)
		}
	}
}

// A filter that misses one thread is no filter.
func TestEveryThread(t *testing.T) {
	if os.Getenv(roleEnv) != "threads" {
		cmd := exec.Command("/proc/self/exe", "-test.run=^TestEveryThread$")
		cmd.Env = append(os.Environ(), roleEnv+"=threads")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}
	release := make(chan struct{})
	started := make(chan struct{})
	for range 20 {
		go func() {
			runtime.LockOSThread()
			started <- struct{}{}
			<-release
		}()
		<-started
	}
	install(Options{})
	tasks, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(tasks) < 20 {
		t.Fatalf("%d threads, %v", len(tasks), err)
	}
	for _, task := range tasks {
		status, err := os.ReadFile(task)
		if err == nil && (!bytes.Contains(status, []byte("Seccomp:\t2")) || !bytes.Contains(status, []byte("NoNewPrivs:\t1"))) {
			t.Errorf("%s is not filtered:\n%s", task, status)
		}
	}
	close(release)
	if err := Install(nil); err == nil {
		t.Error("an empty filter was installed")
	}
}

// What people run inside must run. Each line is a command and what it prints.
func TestTools(t *testing.T) {
	dir := testdir.Plain(t)
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testdir.Must(t, os.WriteFile(path, []byte(text), 0o644))
		return path
	}
	c := write("a.c", "#include <stdio.h>\n#include <pthread.h>\nvoid *f(void *x){puts(\"thread\");return x;}\n"+
		"int main(void){pthread_t t;pthread_create(&t,0,f,0);pthread_join(t,0);puts(\"compiled\");return 0;}\n")
	program := filepath.Join(dir, "a.out")
	gofile := write("main.go", "package main\nimport \"os/exec\"\nfunc main(){b,_:=exec.Command(\"echo\",\"from go\").Output();print(string(b))}\n")
	needs := map[string][]string{ // what a shell line starts
		"1 file changed": {"git"}, "compiled": {"gcc"}, "Breakpoint 1": {"gcc"}, "exited with 0": {"gcc"}, "from go": {"go"}, "tmux works": {"tmux"},
	}
	for _, tc := range []struct {
		want string
		argv []string
	}{
		{"hello", []string{"sh", "-c", "echo hello | cat"}},
		{"42", []string{"node", "-e", "const cp=require('child_process');require('fs').readFile('/etc/passwd',()=>console.log(cp.execSync('echo 42')+''))"}},
		{"listened", []string{"node", "-e", "const s=require('net').createServer().listen(0,'127.0.0.1',()=>{console.log('listened');s.close()})"}},
		{"[0, 1, 4]", []string{"/usr/bin/python3", "-c", "import multiprocessing as m,tempfile,subprocess,asyncio;asyncio.run(asyncio.sleep(0));p=m.Pool(2);print(p.map(pow2:=__import__('functools').partial(pow,exp=2),range(3)))"}},
		{"1 file changed", []string{"sh", "-c", "cd " + dir + " && git init -q r && cd r && echo x >f && git add . && git -c user.name=a -c user.email=a@b commit -m x && git gc -q"}},
		{"compiled", []string{"sh", "-c", "gcc -pthread -g -o " + program + " " + c + " && " + program}},
		{"Breakpoint 1", []string{"gdb", "-nx", "-batch", "-ex", "break f", "-ex", "run", "-ex", "bt", program}},
		{"exited with 0", []string{"strace", "-f", program}},
		{"from go", []string{"sh", "-c", "cd " + dir + " && GO111MODULE=off go build -o g " + gofile + " && ./g"}},
		{"copied", []string{"sh", "-c", "cp -a " + c + " " + c + "2 && mkfifo " + dir + "/p && tar -C " + dir + " -cf " + dir + "/t.tar a.c && tar -C / -tf " + dir + "/t.tar && echo copied"}},
		{"tmux works", []string{"sh", "-c", "tmux -S " + dir + "/sock -f /dev/null new-session -d 'sleep 60' && tmux -S " + dir + "/sock kill-server && echo tmux works"}},
	} {
		t.Run(tc.argv[0]+" "+tc.want, func(t *testing.T) {
			for _, program := range append(needs[tc.want], tc.argv[0]) {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip(err)
				}
			}
			out, err := under(t, "exec", tc.argv...)
			if !strings.Contains(out, tc.want) {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

func TestNested(t *testing.T) {
	const script = "mount -t tmpfs x /tmp && touch /tmp/file && echo mounted"
	for role, want := range map[string]bool{"exec": false, "nested-exec": true} {
		out, err := under(t, role, "unshare", "-Urm", "sh", "-c", script)
		if (err == nil) != want || strings.Contains(out, "mounted") != want {
			t.Errorf("%s: %v\n%s", role, err, out)
		}
	}
}

// A 32-bit entry ends the process with a signal that says so, or with SIGSEGV where the kernel has
// none.
func TestForeignEntryIsKilled(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("int 0x80 is of amd64")
	}
	deaths := []syscall.Signal{unix.SIGSYS, unix.SIGSEGV}
	out, err := under(t, "foreign")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !slices.Contains(deaths, exit.Sys().(syscall.WaitStatus).Signal()) || strings.Contains(out, "survived") {
		t.Errorf("%v\n%s", err, out)
	}
}
