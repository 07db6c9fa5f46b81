package child

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/deadline"
	"forage/internal/unixsock"
)

// ContainArgument is the one argument of a container's first process, which has to call Contain at
// once.
const ContainArgument = "container"

// What a container's first process finds there.
const (
	// ChannelPath is a socket of the host's, from which it gets the guest's end of the channel. The
	// guest does not see it.
	ChannelPath = "/forage/channel"
	// IDsVariable holds the agent's user and group, as "1000:1000".
	IDsVariable = "FORAGE_IDS"
	// SelfVariable is set where the first process is the guest itself: its user 0 has every capability
	// in the container's user namespace, which is for this sandbox alone.
	SelfVariable = "FORAGE_SELF"
	// StreamVariable is set where the channel is standard input and output (Config.Stream).
	StreamVariable = "FORAGE_STREAM"
)

// Contain is the life of a container's first process. It needs no privilege: the guest it starts
// has namespaces of its own and builds the sandbox there. The container around them ends with the
// guest, and with the host: when the connection to it ends. It returns the exit status.
func Contain() int {
	runtime.LockOSThread() // the guest ends with the thread that started it
	status, err := contain()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

func contain() (status int, err error) {
	ids, err := containerIDs(os.Getenv(IDsVariable))
	if err != nil {
		return 0, err
	}
	argument, take := Argument, takeChannel
	if os.Getenv(StreamVariable) != "" {
		argument, take = StreamArgument, bridge
	}
	guest, host, err := take()
	if err != nil {
		return 0, fmt.Errorf("reaching the host: %w", err)
	}
	if os.Getenv(SelfVariable) != "" {
		return 0, becomeGuest(ids.Sys, guest)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, err
	}
	ids.Env, ids.Files = guestEnv, []uintptr{null.Fd(), null.Fd(), uintptr(unix.Stderr), guest.Fd()}
	pid, _, err := syscall.StartProcess(selfExe, []string{"forage-guest", argument}, ids)
	if err != nil {
		return 0, diagnose(fmt.Errorf("starting the guest: %w", err))
	}
	guest.Close()
	go func() {
		io.Copy(io.Discard, host)
		os.Exit(1)
	}()
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // whose user the agent shares
		return 0, fmt.Errorf("PR_SET_DUMPABLE: %w", err)
	}
	for {
		var status unix.WaitStatus
		ended, err := unix.Wait4(-1, &status, 0, nil) // what a stranger started in the container, too
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the guest: %w", err)
		case ended == pid && status.Signaled():
			return 128 + int(status.Signal()), nil
		case ended == pid:
			return status.ExitStatus(), nil
		}
	}
}

// becomeGuest executes the guest as the agent's user, with what building the inside takes.
func becomeGuest(ids *syscall.SysProcAttr, guest *os.File) error {
	if err := unix.Dup3(int(guest.Fd()), controlFD, 0); err != nil && int(guest.Fd()) != controlFD {
		return fmt.Errorf("dup3: %w", err)
	}
	uid, gid := ids.UidMappings[0].ContainerID, ids.GidMappings[0].ContainerID
	err := errors.Join(
		unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0),
		syscall.Setgroups(nil), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(uid, uid, uid),
	)
	if err != nil {
		return fmt.Errorf("becoming the agent's user: %w", err)
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var caps [2]unix.CapUserData
	for _, c := range setupCaps {
		caps[c/32].Effective |= 1 << (c % 32)
	}
	for i := range caps {
		caps[i].Permitted, caps[i].Inheritable = caps[i].Effective, caps[i].Effective
	}
	if err := unix.Capset(&header, &caps[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	for _, c := range setupCaps {
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, c, 0, 0); err != nil {
			return fmt.Errorf("PR_CAP_AMBIENT_RAISE %d: %w", c, err)
		}
	}
	return syscall.Exec(selfExe, []string{"forage-guest", Argument}, guestEnv)
}

// containerIDs has the guest start as the user and group of text, which are the container's own
// user and group outside.
func containerIDs(text string) (*syscall.ProcAttr, error) {
	user, group, _ := strings.Cut(text, ":")
	uid, err := strconv.Atoi(user)
	gid, groupErr := strconv.Atoi(group)
	if err := errors.Join(err, groupErr); err != nil {
		return nil, fmt.Errorf("%s: %w", IDsVariable, err)
	}
	return &syscall.ProcAttr{Sys: &syscall.SysProcAttr{
		Cloneflags:  namespaces,
		AmbientCaps: setupCaps,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: uid, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: gid, HostID: os.Getgid(), Size: 1}},
		Setsid:      true,
		Pdeathsig:   syscall.SIGKILL,
	}}, nil
}

// takeChannel gets the guest's end of the channel from the host.
func takeChannel() (guest *os.File, host io.Reader, err error) {
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: ChannelPath, Net: "unix"})
	if err != nil {
		return nil, nil, err
	}
	rights := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := conn.ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return nil, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:n])
	if err != nil || len(messages) != 1 {
		return nil, nil, fmt.Errorf("the host gave no channel: %w", err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "control"), conn, nil
}

// HandChannel is the host's side of it, for Command.Hand: it gives the first process that comes to
// channel, which program starts, the guest's end. The caller closes the connection to that process.
func HandChannel(program string, channel *net.UnixListener, guest *os.File, ended <-chan struct{}) (conn *net.UnixConn, pid int, err error) {
	handed := make(chan struct{})
	defer close(handed)
	go func() {
		select {
		case <-ended:
			channel.SetDeadline(time.Unix(1, 0))
		case <-handed:
		}
	}()
	channel.SetDeadline(time.Now().Add(deadline.Answer))
	if conn, err = channel.AcceptUnix(); err != nil {
		return nil, 0, fmt.Errorf("%s started no guest", program)
	}
	peer, err := unixsock.Peer(conn)
	if err == nil {
		_, _, err = conn.WriteMsgUnix([]byte{0}, unix.UnixRights(int(guest.Fd())), nil)
	}
	if err != nil {
		conn.Close()
		return nil, 0, err
	}
	return conn, int(peer.Pid), nil
}

// bridge makes a channel of standard input and output. Its reader ends with the input.
func bridge() (guest *os.File, host io.Reader, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	end := os.NewFile(uintptr(fds[0]), "stream")
	defer end.Close()
	conn, err := net.FileConn(end)
	if err != nil {
		return nil, nil, err
	}
	go io.Copy(os.Stdout, conn)
	return os.NewFile(uintptr(fds[1]), "control"), io.TeeReader(os.Stdin, conn), nil
}
