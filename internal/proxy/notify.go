package proxy

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"forage/internal/config"
	"forage/internal/systemd"
)

// notifier tells the service manager how the service is (sd_notify(3)): a
// datagram to a socket that the environment names.
type notifier struct{ path string }

func (n *notifier) find(getenv func(string) (string, bool)) { n.path, _ = getenv("NOTIFY_SOCKET") }

// say tells the service manager, if there is one, of a state.
func (s *Service) say(state string) {
	if err := systemd.Notify(s.notify.path, state); err != nil {
		s.log.Warn("telling the service manager", "error", err)
	}
}

// reloading is what Type=notify-reload waits for, with the time of CLOCK_MONOTONIC.
func reloading() string {
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) != nil {
		return "RELOADING=1"
	}
	return fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000)
}

// firstInherited is the first descriptor that a service manager passes (sd_listen_fds(3)).
const firstInherited = 3

// inherited are the listeners that a service manager has opened for this
// process, by what they are called in the configuration.
func inherited(getenv func(string) (string, bool), first int, listen []config.ProxyListen) (_ map[string]net.Listener, err error) {
	fds, _ := getenv("LISTEN_FDS")
	pid, _ := getenv("LISTEN_PID")
	count, err := strconv.Atoi(fds)
	if err != nil || count <= 0 || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	listeners := map[string]net.Listener{}
	defer func() {
		if err != nil {
			closeAll(listeners)
		}
	}()
	for fd := first; fd < first+count; fd++ {
		unix.CloseOnExec(fd)
		file := os.NewFile(uintptr(fd), "listener")
		listener, err := net.FileListener(file) // a duplicate
		if err := errors.Join(err, file.Close()); err != nil {
			return nil, fmt.Errorf("descriptor %d from the service manager: %w", fd, err)
		}
		if unix, ok := listener.(*net.UnixListener); ok {
			unix.SetUnlinkOnClose(false)
		}
		name := nameOf(listener.Addr(), listen)
		if name == "" {
			listener.Close()
			return nil, fmt.Errorf("the service manager listens on %s, which is not in proxy.listen", listener.Addr())
		}
		listeners[name] = listener
	}
	return listeners, nil
}

// nameOf is what the configuration calls an address; "" is nothing.
func nameOf(addr net.Addr, listen []config.ProxyListen) string {
	for _, at := range listen {
		if at.Address == addr.String() && (at.Kind == config.ListenUnix) == (addr.Network() == "unix") {
			return at.String()
		}
	}
	return ""
}
