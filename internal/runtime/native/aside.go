package native

import (
	"golang.org/x/sys/unix"

	"forage/internal/mount"
	"forage/internal/netns"
	"forage/internal/seccomp"
)

// aside is the part of a start that needs to know next to nothing of the sandbox. It is done in a goroutine of its own from
// the first moment on, while the root is built.
type aside struct {
	proc      int // a detached /proc
	procErr   error
	procReady chan struct{}

	network      netns.Network
	networkErr   error
	networkReady chan struct{}

	options     chan seccomp.Options
	filter      []unix.SockFilter
	filterErr   error
	filterReady chan struct{}
}

func startAside() *aside {
	a := &aside{
		procReady: make(chan struct{}), networkReady: make(chan struct{}), filterReady: make(chan struct{}),
		options: make(chan seccomp.Options, 1),
	}
	go func() {
		a.proc, a.procErr = mount.New("proc", mount.Inert|unix.MOUNT_ATTR_NOEXEC)
		close(a.procReady)
		a.network, a.networkErr = netns.Setup()
		close(a.networkReady)
		a.filter, a.filterErr = seccomp.Filter(<-a.options)
		close(a.filterReady)
	}()
	return a
}

// takeProc returns the detached /proc; it is the caller's to close then. It may be called once.
func (a *aside) takeProc() (int, error) {
	<-a.procReady
	return a.proc, a.procErr
}

// takeNetwork waits for the network; it is the caller's to close then.
func (a *aside) takeNetwork() (netns.Network, error) {
	<-a.networkReady
	return a.network, a.networkErr
}

// takeFilter waits for the filter that options, which have to be sent before, describe.
func (a *aside) takeFilter() ([]unix.SockFilter, error) {
	<-a.filterReady
	return a.filter, a.filterErr
}
