package child

import (
	"golang.org/x/sys/unix"

	"forage/internal/mount"
	"forage/internal/netns"
	"forage/internal/seccomp"
)

// background is the part of a start that needs to know next to nothing of the sandbox. It is done
// in a goroutine of its own from the first moment on, while the root is built. Each part is
// there to be taken once; what was opened is then the taker's.
type background struct {
	proc    chan part[int] // a detached /proc
	network chan part[netns.Network]
	options chan seccomp.Options
	filter  chan part[[]unix.SockFilter] // that options, which have to be sent before, describe
}

type part[T any] struct {
	value T
	err   error
}

func partOf[T any](value T, err error) part[T] { return part[T]{value, err} }

func take[T any](c chan part[T]) (T, error) {
	o := <-c
	return o.value, o.err
}

func startBackground() *background {
	a := &background{
		make(chan part[int], 1), make(chan part[netns.Network], 1), make(chan seccomp.Options, 1), make(chan part[[]unix.SockFilter], 1),
	}
	go func() {
		a.proc <- partOf(mount.New("proc", mount.Inert|unix.MOUNT_ATTR_NOEXEC))
		a.network <- partOf(netns.Setup())
		a.filter <- partOf(seccomp.Filter(<-a.options))
	}()
	return a
}
