// Package unixsock listens on and connects to unix sockets by paths of any
// length: sun_path holds 108 bytes (unix(7)), so the last element is reached
// through the opened folder, as /proc/self/fd/N/NAME.
package unixsock

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Listen makes a unix socket at path, with mode 0600, and listens on it. A
// socket that is already there is replaced: the caller holds whatever lock
// makes that right. Closing the listener leaves the file; the folder's owner removes it.
func Listen(path string) (*net.UnixListener, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	defer dir.Close()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: through(dir, path), Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		listener.Close()
		return nil, fmt.Errorf("listening on %s: %w", path, err)
	}
	return listener, nil
}

// Dial connects to the unix socket at path.
func Dial(ctx context.Context, path string) (*net.UnixConn, error) {
	dir, err := openFolder(path)
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	defer dir.Close()
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", through(dir, path))
	if err != nil {
		return nil, fmt.Errorf("connecting to %s: %w", path, err)
	}
	return conn.(*net.UnixConn), nil
}

// Peer is who is at the other end: the process that connected, or that called
// listen (unix(7), SO_PEERCRED).
func Peer(conn *net.UnixConn) (*unix.Ucred, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	var peer *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		peer, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return nil, err
	}
	return peer, credErr
}

func openFolder(path string) (*os.File, error) {
	return os.OpenFile(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

func through(dir *os.File, path string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path))
}
