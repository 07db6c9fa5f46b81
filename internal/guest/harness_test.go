package guest_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/control"
	"forage/internal/guest"
	"forage/internal/guest/guestclient"
	"forage/internal/sshkeys"
	"forage/internal/testdir"
	"forage/internal/unixsock"
)

// The test binary as the first process of a namespace, in two steps.
const (
	prepareName = "test-prepare"
	pid1Name    = "test-pid1"
)

func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func TestMain(m *testing.M) {
	switch os.Args[0] {
	case guest.LimitName:
		os.Exit(guest.Limit(os.Args[1:]))
	case guest.SFTPName:
		os.Exit(guest.SFTP())
	case prepareName:
		fail(prepare(os.Args[1:]))
	case pid1Name:
		fail(pid1(os.Args[1:]))
	}
	os.Exit(m.Run())
}

// prepare makes the test's own namespaces what a runtime would, and becomes PID 1
// without privileges. Descriptors: 3 control, 4 SSH, 5 log (if args say
// so); the configuration comes on 6.
func prepare(args []string) error {
	runtime.LockOSThread()
	if args[3] == "onecpu" {
		if err := onOneCPU(); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	if err := ignoreReserved(); err != nil {
		return err
	}
	return unix.Exec("/proc/self/exe", append([]string{pid1Name}, args...), nil)
}

// onOneCPU keeps this thread on the first of the processors that it may use.
func onOneCPU() error {
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for cpu := 0; first.Count() == 0; cpu++ {
		if all.IsSet(cpu) {
			first.Set(cpu)
		}
	}
	return unix.SchedSetaffinity(0, &first)
}

// ignoreReserved ignores what make(1) and others hand on ignored, since glibc's posix_spawn does.
func ignoreReserved() error {
	ignore := struct { // struct kernel_sigaction
		handler, flags, restorer uintptr
		mask                     uint64
	}{handler: 1} // SIG_IGN
	for sig := uintptr(32); sig <= 34; sig++ {
		_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&ignore)), 0, unsafe.Sizeof(ignore.mask), 0, 0)
		if errno != 0 {
			return errno
		}
	}
	return nil
}

func pid1(args []string) error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return err
	}
	conn, err := control.New(os.NewFile(3, "control"), control.FromHost())
	if err != nil {
		return err
	}
	config, err := io.ReadAll(os.NewFile(6, "configuration"))
	if err != nil {
		return err
	}
	ssh, err := net.FileListener(os.NewFile(4, "ssh"))
	if err != nil {
		return err
	}
	options := guest.Options{Conn: conn, Config: config, SSH: ssh, LogFolders: []string{args[1]}}
	if args[0] == "log" {
		options.Log = os.NewFile(5, "log")
	}
	if args[2] == "confine" {
		options.Confine = scopeSignals
	}
	return guest.Serve(options)
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	ifreq.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq)
}

// scopeSignals puts the calling thread into a Landlock domain whose processes
// can't signal those outside it (Landlock ABI 6).
func scopeSignals() error {
	attr := struct{ fs, net, scoped uint64 }{scoped: unix.LANDLOCK_SCOPE_SIGNAL}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return errno
	}
	defer unix.Close(int(fd))
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// patience bounds every wait for something that has to happen.
const patience = time.Minute

// sandbox is a guest in namespaces of its own, and the host's ends.
type sandbox struct {
	t      testing.TB
	dir    string
	socket string
	conn   *control.Conn
	signer ssh.Signer
	host   ssh.PublicKey
	log    *os.File
	stderr *strings.Builder
	pid    int
	ended  chan struct{} // closed when PID 1 is gone
	state  *os.ProcessState
}

type setup struct {
	config    func(*guest.Config)
	log       bool
	unconfine bool // nothing keeps what runs inside from signalling PID 1
	oneCPU    bool
}

const insideUID = 1000

// hostID is who the sandbox is on the host: ourselves, but never root, who owns the
// kernel's closed files and has no RLIMIT_NPROC.
func hostID() int {
	if os.Getuid() == 0 {
		return 61234
	}
	return os.Getuid()
}

// boot starts a guest that has not been told to go ahead.
func boot(t testing.TB, s setup) *sandbox {
	t.Helper()
	dir, err := os.MkdirTemp(testdir.Base(), "guest") // t.TempDir is closed to the sandbox's user
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	sb := &sandbox{t: t, dir: dir, socket: filepath.Join(dir, "ssh.sock"), ended: make(chan struct{}), stderr: &strings.Builder{}}
	key, err := sshkeys.NewHost()
	must(t, err)
	hostKey := ed25519.PrivateKey(key)
	sb.host, err = ssh.NewPublicKey(hostKey.Public())
	must(t, err)
	_, private, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	sb.signer, err = ssh.NewSignerFromKey(private)
	must(t, err)
	block, err := ssh.MarshalPrivateKey(private, "test")
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "id"), pem.EncodeToMemory(block), 0o600))
	must(t, os.Mkdir(filepath.Join(dir, "work"), 0o755))
	if os.Getuid() == 0 {
		must(t, os.Chown(dir, hostID(), hostID()))
		must(t, os.Chown(filepath.Join(dir, "work"), hostID(), hostID()))
	}

	config := guest.Config{
		Name:           "test",
		HostKey:        key,
		AuthorizedKeys: []string{sshkeys.Line(sb.signer.PublicKey())},
		Env: []string{"PATH=/usr/bin:/bin", "HOME=" + dir, "LANG=C.UTF-8", "SHELL=/bin/bash", "USER=agent",
			"TMUX_TMPDIR=" + dir, "FORAGE_SANDBOX=test"},
		Dir: filepath.Join(dir, "work"),
	}
	if s.config != nil {
		s.config(&config)
	}
	sb.start(s, config)
	return sb
}

func (sb *sandbox) start(s setup, config guest.Config) {
	t := sb.t
	hostEnd, guestEnd, err := control.Pair()
	must(t, err)
	sb.conn, err = control.New(hostEnd, control.FromGuest())
	must(t, err)
	listener, err := unixsock.Listen(sb.socket)
	must(t, err)
	socket, err := listener.File()
	must(t, err)
	listener.Close()
	logRead, logWrite, err := os.Pipe()
	must(t, err)
	sb.log = logRead
	body, err := json.Marshal(config)
	must(t, err)
	configRead, configWrite, err := os.Pipe()
	must(t, err)
	go func() { configWrite.Write(body); configWrite.Close() }()

	mode, confine := "nolog", "confine"
	if s.log {
		mode = "log"
	}
	if s.unconfine {
		confine = "open"
	}
	cpus := "allcpus"
	if s.oneCPU {
		cpus = "onecpu"
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{prepareName, mode, sb.dir, confine, cpus}
	cmd.Env = []string{}
	cmd.Stderr = sb.stderr
	cmd.ExtraFiles = []*os.File{guestEnd, socket, logWrite, configRead}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: insideUID, HostID: hostID(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: insideUID, HostID: hostID(), Size: 1}},
		Credential:  &syscall.Credential{Uid: insideUID, Gid: insideUID, NoSetGroups: true},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN},
		Setsid:      true,
	}
	must(t, cmd.Start())
	sb.pid = cmd.Process.Pid
	for _, file := range []*os.File{guestEnd, socket, logWrite, configRead} {
		file.Close()
	}
	go func() {
		cmd.Wait()
		sb.state = cmd.ProcessState
		close(sb.ended)
	}()
	t.Cleanup(func() {
		sb.conn.Close()
		select {
		case <-sb.ended:
		case <-time.After(patience):
			t.Error("PID 1 outlives its control channel")
			cmd.Process.Kill()
			<-sb.ended
		}
		logRead.Close()
		if strings.Contains(sb.stderr.String(), "DATA RACE") {
			t.Error("PID 1 has a data race")
		}
		if t.Failed() && sb.stderr.Len() > 0 {
			t.Log("PID 1 said:", sb.stderr)
		}
	})
}

// up is a guest that is ready.
func up(t testing.TB, s setup) *sandbox {
	t.Helper()
	sb := boot(t, s)
	if frame := sb.ask(control.Frame{Kind: control.Go}); frame.Kind != control.Ready {
		t.Fatalf("the guest answered %s %s", frame.Kind, frame.Body)
	}
	return sb
}

func (sb *sandbox) ask(frame control.Frame) control.Frame {
	sb.t.Helper()
	must(sb.t, sb.conn.Send(frame))
	sb.conn.SetReadDeadline(time.Now().Add(patience))
	answer, _, err := sb.conn.Receive()
	must(sb.t, err)
	return answer
}

func (sb *sandbox) query(what string) control.AnswerBody {
	sb.t.Helper()
	frame, err := control.Encode(control.Query, control.QueryBody{What: what})
	must(sb.t, err)
	var answer control.AnswerBody
	must(sb.t, sb.ask(frame).Decode(&answer))
	return answer
}

// answered asks until there is an answer: on a busy machine tmux may take longer than the guest
// waits for it.
func (sb *sandbox) answered(what string) control.AnswerBody {
	sb.t.Helper()
	var answer control.AnswerBody
	eventually(sb.t, "tmux answers "+what, func() bool { answer = sb.query(what); return answer.Error == "" })
	return answer
}

func (sb *sandbox) stop(grace time.Duration) {
	sb.t.Helper()
	frame, err := control.Encode(control.Stop, control.StopBody{GraceMillis: grace.Milliseconds()})
	must(sb.t, err)
	must(sb.t, sb.conn.Send(frame))
}

func (sb *sandbox) waitEnd() {
	sb.t.Helper()
	select {
	case <-sb.ended:
	case <-time.After(patience):
		sb.t.Fatalf("PID 1 still runs after %v", patience)
	}
}

func (sb *sandbox) dial() *guestclient.Client {
	sb.t.Helper()
	client, err := guestclient.Dial(sb.t.Context(), sb.socket)
	must(sb.t, err)
	sb.t.Cleanup(func() { client.Close() })
	return client
}

// run runs a command and returns its output and code.
func (sb *sandbox) run(argv ...string) (stdout, stderr string, code int) {
	sb.t.Helper()
	var out, errOut strings.Builder
	ctx, cancel := context.WithTimeout(sb.t.Context(), patience)
	defer cancel()
	exit, err := sb.dial().Run(ctx, guestclient.Command{Argv: argv}, guestclient.Stdio{Out: &out, Err: &errOut})
	must(sb.t, err)
	return out.String(), errOut.String(), exit.Code()
}

// processes are the command lines of what runs inside beside PID 1, as the host sees them.
func (sb *sandbox) processes() []string {
	sb.t.Helper()
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", sb.pid))
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	must(sb.t, err)
	var found []string
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == sb.pid {
			continue
		}
		if own, _ := os.Readlink("/proc/" + entry.Name() + "/ns/pid"); own != namespace {
			continue
		}
		line, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		found = append(found, strings.ReplaceAll(string(line), "\x00", " ")+" "+string(stat))
	}
	return found
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// forget makes begun wait for another time.
func (sb *sandbox) forget() { os.Remove(sb.dir + "/work/begun") }

// eventually waits for a condition.
func eventually(t testing.TB, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("never came true: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

var goFrame = control.Frame{Kind: control.Go}
