package proxy

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/config"
	"forage/internal/testdir"
)

// TestInherited: listeners that a service manager passes are known by where they listen.
func TestInherited(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	path := testdir.Plain(t) + "/p.sock"
	local, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer local.Close()
	pass := func() (first int) { // as two descriptors in a row, which are taken over
		t.Helper()
		for i, listener := range []interface{ File() (*os.File, error) }{tcp.(*net.TCPListener), local.(*net.UnixListener)} {
			file, err := listener.File()
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if i == 0 {
				if first, err = unix.FcntlInt(file.Fd(), unix.F_DUPFD, 300); err != nil {
					t.Fatal(err)
				}
			} else if err := unix.Dup3(int(file.Fd()), first+i, 0); err != nil {
				t.Fatal(err)
			}
		}
		return first
	}
	env := map[string]string{"LISTEN_FDS": "2", "LISTEN_PID": strconv.Itoa(os.Getpid())}
	getenv := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	at := []config.ProxyListen{{Kind: config.ListenTLS, Address: tcp.Addr().String()}, {Kind: config.ListenUnix, Address: path}}

	first := pass()
	got, err := inherited(getenv, first, at)
	if err != nil || len(got) != 2 || got["tls:"+tcp.Addr().String()] == nil || got["unix:"+path] == nil {
		t.Fatalf("got %v, %v", got, err)
	}
	for _, fd := range []int{first, first + 1} {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
			t.Errorf("descriptor %d is still open: %v", fd, err)
		}
	}
	closeAll(got)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the service manager's socket is gone: %v", err)
	}

	first = pass()
	if got, err := inherited(getenv, first, at[:1]); err == nil || !strings.Contains(err.Error(), path+", which is not in proxy.listen") {
		t.Errorf("one that is not configured: %v, %v", got, err)
	}
	env["LISTEN_PID"] = "1"
	if got, err := inherited(getenv, first, at); got != nil || err != nil {
		t.Errorf("those of another process: %v, %v", got, err)
	}
}
