package guest_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/guest/wire"
	"forage/internal/testdir"
)

// openSSH is the stock client, led to the guest through a TCP port as a user's is.
type openSSH struct {
	t       testing.TB
	sb      *sandbox
	port    string
	options []string
}

func (sb *sandbox) openSSH() *openSSH {
	sb.t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(sb.t, err)
	sb.t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			guest, err := net.Dial("unix", sb.socket)
			if err != nil {
				conn.Close()
				continue
			}
			wire.Dial(guest, wire.SSH)
			go func() { io.Copy(guest, conn); guest.(*net.UnixConn).CloseWrite() }()
			go func() { io.Copy(conn, guest); conn.Close(); guest.Close() }()
		}
	}()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	dir := testdir.Plain(sb.t)
	known := filepath.Join(dir, "known_hosts")
	line := fmt.Sprintf("[127.0.0.1]:%s %s", port, ssh.MarshalAuthorizedKey(sb.host))
	must(sb.t, os.WriteFile(known, []byte(line), 0o600))
	key := filepath.Join(dir, "id")
	text, err := os.ReadFile(filepath.Join(sb.dir, "id"))
	must(sb.t, err)
	must(sb.t, os.WriteFile(key, text, 0o600))
	return &openSSH{t: sb.t, sb: sb, port: port, options: []string{"-F", "/dev/null", "-i", key,
		"-o", "IdentitiesOnly=yes", "-o", "UserKnownHostsFile=" + known, "-o", "StrictHostKeyChecking=yes", "-o", "BatchMode=yes", "-o", "LogLevel=ERROR"}}
}

// command is an OpenSSH program; portFlag is what it calls the port.
func (o *openSSH) command(program, portFlag string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(o.t.Context(), 10*patience)
	o.t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, append(append(append([]string{}, o.options...), portFlag, o.port), args...)...)
}

func (o *openSSH) ssh(args ...string) *exec.Cmd {
	return o.command("ssh", "-p", append([]string{"-l", "agent", "127.0.0.1"}, args...)...)
}

func code(err error) int {
	if err == nil {
		return 0
	}
	if exit, ok := err.(*exec.ExitError); ok {
		return exit.ExitCode()
	}
	return -1
}

func TestOpenSSHExec(t *testing.T) {
	sb := up(t, setup{})
	client := sb.openSSH()
	for _, test := range []struct {
		name, command, in, out string
		code                   int
	}{
		{"output", "echo hello; echo $0", "", "hello\n/bin/bash\n", 0},
		{"status", "exit 42", "", "", 42},
		{"input", "tr a-z A-Z", "abc", "ABC", 0},
		{"signal", "kill -TERM $$", "", "", 255}, // what ssh makes of exit-signal
		{"environment", "echo $FORAGE_SANDBOX $LANG $SECRET", "", "test C.UTF-8\n", 0},
		{"a process left behind", "sleep 1000 & echo $?", "", "0\n", 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := client.ssh(test.command)
			cmd.Env = append(os.Environ(), "SECRET=value", "LC_ALL=C")
			cmd.Args = append(cmd.Args[:1:1], append([]string{"-o", "SendEnv=SECRET"}, cmd.Args[1:]...)...)
			cmd.Stdin = strings.NewReader(test.in)
			out, err := cmd.Output()
			if string(out) != test.out || code(err) != test.code {
				t.Errorf("got %q, %v", out, err)
			}
		})
	}
}

func TestOpenSSHLarge(t *testing.T) {
	sb := up(t, setup{})
	cmd := sb.openSSH().ssh("cat")
	cmd.Stdin = random(large)
	h := sha256.New()
	cmd.Stdout = h
	must(t, cmd.Run())
	if got, want := fmt.Sprintf("%x", h.Sum(nil)), digest(random(large)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestOpenSSHTerminal(t *testing.T) {
	sb := up(t, setup{})
	client := sb.openSSH()
	terminal := openPTY(t)
	modes, err := unix.IoctlGetTermios(int(terminal.slave.Fd()), unix.TCGETS)
	must(t, err)
	modes.Cc[unix.VERASE] = 8
	must(t, unix.IoctlSetTermios(int(terminal.slave.Fd()), unix.TCSETS, modes))
	cmd := client.ssh("-tt")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.Stdin, cmd.Stdout = terminal.slave, terminal.slave
	must(t, cmd.Start())
	screen := terminal.watch()
	terminal.master.WriteString("stty size; stty -a; echo TERM=$TERM; tty; shopt login_shell; exit 7\n")
	if err := cmd.Wait(); code(err) != 7 {
		t.Errorf("ended with %v", err)
	}
	for _, want := range []string{"31 97", "erase = ^H", "TERM=xterm-256color", "/dev/pts/", "login_shell    \ton"} {
		screen.shows(t, want)
	}
}

func TestOpenSSHFiles(t *testing.T) {
	sb := up(t, setup{})
	client := sb.openSSH()
	local := filepath.Join(t.TempDir(), "local")
	content, err := io.ReadAll(random(5 << 20))
	must(t, err)
	must(t, os.WriteFile(local, content, 0o644))

	scp := client.command("scp", "-P", local, "agent@127.0.0.1:copied")
	if out, err := scp.CombinedOutput(); err != nil {
		t.Fatalf("scp: %s", out)
	}
	got, err := os.ReadFile(sb.dir + "/work/copied")
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Error("scp changed the file")
	}

	sftp := client.command("sftp", "-P", "-b", "-", "agent@127.0.0.1")
	sftp.Stdin = strings.NewReader("pwd\nget copied " + local + ".back\nmkdir made\nrename copied made/moved\nls -l made\n")
	out, err := sftp.CombinedOutput()
	if err != nil || !strings.Contains(string(out), sb.dir+"/work") {
		t.Fatalf("sftp: %v %s", err, out)
	}
	got, err = os.ReadFile(local + ".back")
	must(t, err)
	if !bytes.Equal(got, content) {
		t.Error("sftp changed the file")
	}
	if _, err := os.Stat(sb.dir + "/work/made/moved"); err != nil {
		t.Error(err)
	}

	// The files of PID 1 stay closed to clients as they are to the agent.
	for _, path := range []string{"/proc/1/environ", "/proc/1/mem", "/proc/1/fd/3"} {
		sftp := client.command("sftp", "-P", "-b", "-", "agent@127.0.0.1")
		sftp.Stdin = strings.NewReader("get " + path + " " + local + ".stolen\n")
		if out, err := sftp.CombinedOutput(); err == nil {
			t.Errorf("%s could be read: %s", path, out)
		}
	}
}

func TestOpenSSHForwarding(t *testing.T) {
	sb := up(t, setup{})
	client := sb.openSSH()
	server := `
import socket, os
s = socket.socket(); s.bind(('127.0.0.1', 8000)); s.listen(5)
u = socket.socket(socket.AF_UNIX); u.bind('` + sb.dir + `/sock'); u.listen(5)
open('begun', 'w')
if os.fork(): s = u
while True:
    c, _ = s.accept()
    c.sendall(b'got ' + c.recv(100)); c.close()
`
	must(t, os.WriteFile(sb.dir+"/server.py", []byte(server), 0o644))
	background(sb, "exec python3 "+sb.dir+"/server.py")
	for _, target := range []string{"127.0.0.1:8000", "localhost:8000", "[::ffff:127.0.0.1]:8000"} {
		cmd := client.command("ssh", "-p", "-W", target, "agent@127.0.0.1")
		cmd.Stdin = strings.NewReader("bytes")
		if out, err := cmd.CombinedOutput(); string(out) != "got bytes" {
			t.Errorf("%s: %q %v", target, out, err)
		}
	}
	for _, target := range []string{"127.0.0.1:8001", "192.0.2.1:80", "example.com:80", "[fe80::1%lo]:80", "0.0.0.0:8000"} {
		cmd := client.command("ssh", "-p", "-W", target, "agent@127.0.0.1")
		if out, err := cmd.CombinedOutput(); err == nil {
			t.Errorf("%s was connected: %q", target, out)
		}
	}
	// Only the host has the guest listen.
	if _, _, err := sb.rawClient().OpenChannel(wire.ListenKind, ssh.Marshal(wire.Listen{Port: 8002})); err == nil {
		t.Error("a client of the SSH port had the guest listen")
	}
	channel, _, err := sb.rawClient().OpenChannel("direct-streamlocal@openssh.com", ssh.Marshal(struct {
		Path, Reserved string
		Zero           uint32
	}{sb.dir + "/sock", "", 0}))
	must(t, err)
	channel.Write([]byte("unix"))
	channel.CloseWrite()
	if got, _ := io.ReadAll(channel); string(got) != "got unix" {
		t.Errorf("unix socket: %q", got)
	}
}

// rawClient logs in with the plain SSH library, to send what our client doesn't.
func (sb *sandbox) rawClient() *ssh.Client {
	sb.t.Helper()
	client, err := sb.login(ssh.PublicKeys(sb.signer))
	must(sb.t, err)
	sb.t.Cleanup(func() { client.Close() })
	return client
}

func (sb *sandbox) login(auth ...ssh.AuthMethod) (*ssh.Client, error) {
	conn, err := net.Dial("unix", sb.socket)
	must(sb.t, err)
	must(sb.t, wire.Dial(conn, wire.SSH))
	client, channels, requests, err := ssh.NewClientConn(conn, "", &ssh.ClientConfig{User: "agent", Auth: auth, HostKeyCallback: ssh.FixedHostKey(sb.host)})
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(client, channels, requests), nil
}
