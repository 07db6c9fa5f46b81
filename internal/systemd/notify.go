// Package systemd tells a service manager how a service is (sd_notify(3)).
package systemd

import (
	"errors"
	"net"
	"time"

	"forage/internal/deadline"
)

// Notify sends a state, such as READY=1, to the socket at path, which NOTIFY_SOCKET has; "" is
// none.
func Notify(path, state string) error {
	if path == "" {
		return nil
	}
	// "@" is net's and systemd's way of writing an abstract socket.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		return err
	}
	conn.SetWriteDeadline(time.Now().Add(deadline.End)) // one that reads nothing is not waited for
	_, err = conn.Write([]byte(state))
	return errors.Join(err, conn.Close())
}
