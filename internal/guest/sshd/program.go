package sshd

import (
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/crypto/ssh"
	"golang.org/x/sys/unix"

	"forage/internal/guest/boot"
	"forage/internal/guest/wire"
)

// program is a started program and our ends of its streams.
type program struct {
	begun    bool
	process  *boot.Process
	terminal *terminal // nil without one

	stdin, stdout, stderr *os.File // without a terminal

	failure []byte // why it was not started
	code    int
}

// newProgram starts command, in a terminal of its own if one is wanted.
func (s *Server) newProgram(command boot.Command, wanted *wire.Terminal, modes []byte) (*program, error) {
	if wanted != nil {
		return s.newTerminalProgram(command, wanted, modes)
	}
	p := &program{}
	for _, end := range []struct {
		ours, child **os.File
		childReads  bool
	}{
		{&p.stdin, &command.Stdin, true},
		{&p.stdout, &command.Stdout, false},
		{&p.stderr, &command.Stderr, false},
	} {
		ours, child, err := boot.Pipe(end.childReads)
		if err != nil {
			p.closeStreams()
			return nil, err
		}
		defer child.Close()
		*end.ours, *end.child = ours, child
	}
	var err error
	if p.process, err = s.options.Tree.Start(command); err != nil {
		p.closeStreams()
		return nil, err
	}
	return p, nil
}

func (s *Server) newTerminalProgram(command boot.Command, wanted *wire.Terminal, modes []byte) (*program, error) {
	terminal, err := s.openTerminal(wanted.Columns, wanted.Rows)
	if err != nil {
		return nil, err
	}
	slave, err := terminal.slave(modes)
	if err != nil {
		terminal.close()
		return nil, err
	}
	defer slave.Close()
	if wanted.Term != "" {
		command.Env = boot.Setenv(command.Env, "TERM="+boot.Terminal(wanted.Term, command.Env))
	}
	command.Stdin, command.Stdout, command.Stderr = slave, slave, slave
	command.Terminal = true
	process, err := s.options.Tree.Start(command)
	if err != nil {
		terminal.close()
		return nil, err
	}
	return &program{process: process, terminal: terminal}, nil
}

// serve carries the program's streams and then its end to the client.
func (p *program) serve(channel ssh.Channel) {
	defer channel.Close()
	if p.process == nil {
		channel.Stderr().Write(p.failure)
		sendStatus(channel, p.code)
		return
	}
	defer p.closeStreams()
	if p.terminal != nil {
		go p.terminal.copyInput(channel)
		boot.CopyOutput(channel, p.terminal.master, p.process.Done())
	} else {
		go copyInput(p.stdin, channel)
		var outputs sync.WaitGroup
		outputs.Go(func() { copyOutput(channel, p.stdout, p.process) })
		outputs.Go(func() { copyOutput(channel.Stderr(), p.stderr, p.process) })
		outputs.Wait()
	}
	<-p.process.Done()
	sendEnd(channel, p.process.Status())
}

// copyOutput closes the pipe as soon as the client is gone, so that its writers get SIGPIPE.
func copyOutput(dst io.Writer, src *os.File, process *boot.Process) {
	boot.CopyOutput(dst, src, process.Done())
	src.Close()
}

// copyInput ends when the client has no more, or when the program reads no more.
func copyInput(stdin *os.File, channel io.Reader) {
	io.CopyBuffer(struct{ io.Writer }{stdin}, channel, make([]byte, 32<<10))
	stdin.Close()
}

// handle serves a request about the running program.
func (p *program) handle(request *ssh.Request) bool {
	if p.process == nil {
		return false
	}
	switch request.Type {
	case "signal":
		var signal struct{ Name string }
		if ssh.Unmarshal(request.Payload, &signal) != nil {
			return false
		}
		return p.signal(wire.ParseSignal(signal.Name))
	case "window-change":
		var size struct{ Columns, Rows, Width, Height uint32 }
		if p.terminal == nil || ssh.Unmarshal(request.Payload, &size) != nil {
			return false
		}
		return p.terminal.resize(size.Columns, size.Rows) == nil
	case wire.EndOfWrite:
		if p.stdout != nil {
			p.stdout.Close()
		}
		return true
	}
	return false
}

// signal goes to the program's process group, and to the job that its
// terminal shows.
func (p *program) signal(sig syscall.Signal) bool {
	if sig == 0 {
		return false
	}
	if p.terminal != nil {
		if group := p.terminal.foreground(); group != p.process.Group() {
			p.process.SignalGroup(group, sig)
		}
	}
	p.process.Signal(sig)
	return true
}

// hangUp tells the program that its client is gone: end of its input, closed
// outputs, and SIGHUP if it still runs. What survives that (nohup) goes on.
func (p *program) hangUp() {
	if p.process == nil {
		return
	}
	p.closeStreams()
	p.signal(unix.SIGHUP)
}

func (p *program) closeStreams() {
	if p.terminal != nil {
		p.terminal.close()
	}
	for _, file := range []*os.File{p.stdin, p.stdout, p.stderr} {
		if file != nil {
			file.Close()
		}
	}
}

// sendEnd says how a program ended (RFC 4254, section 6.10).
func sendEnd(channel ssh.Channel, status unix.WaitStatus) {
	if !status.Signaled() {
		sendStatus(channel, status.ExitStatus())
		return
	}
	channel.CloseWrite()
	channel.SendRequest("exit-signal", false, ssh.Marshal(struct {
		Name              string
		Core              bool
		Message, Language string
	}{Name: wire.SignalName(status.Signal()), Core: status.CoreDump()}))
}

func sendStatus(channel ssh.Channel, code int) {
	channel.CloseWrite()
	channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Code uint32 }{uint32(code)}))
}
