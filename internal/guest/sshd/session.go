package sshd

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"golang.org/x/crypto/ssh"

	"forage"
	"forage/internal/guest/boot"
	"forage/internal/guest/wire"
)

// maxParts bounds a program request that comes in parts, in bytes.
const maxParts = 4 << 20

// session is one session channel: at most one program (RFC 4254, section 6).
type session struct {
	server  *Server
	channel ssh.Channel
	env     []string
	wanted  *wire.Terminal // asked for, before the program is started
	modes   []byte         // of that terminal, as the client encoded them
	parts   []byte
	program *program
	ended   sync.WaitGroup
}

func (s *Server) session(channel ssh.NewChannel) {
	accepted, requests, err := channel.Accept()
	if err != nil {
		return
	}
	session := &session{server: s, channel: accepted, env: s.options.Env}
	for request := range requests {
		ok := session.handle(request)
		if plain, is := accepted.(interface{ Reply(bool) error }); is {
			plain.Reply(ok)
		} else if request.WantReply {
			request.Reply(ok, nil)
		}
		if p := session.program; p != nil && !p.begun { // the client knows now that its request was granted
			p.begun = true
			session.ended.Go(func() { p.serve(accepted) })
		}
	}
	// The client has closed the channel, or is gone.
	if session.program != nil {
		session.program.hangUp()
	}
	session.ended.Wait()
	accepted.Close()
}

func (s *session) handle(request *ssh.Request) bool {
	switch request.Type {
	case "env":
		return s.setenv(request.Payload)
	case "pty-req":
		return s.terminalRequest(request.Payload)
	case "shell":
		shell := s.shell() // a '-' before its name tells it that it is a login shell
		return s.start(boot.Command{Path: shell, Argv: []string{"-" + shell[strings.LastIndexByte(shell, '/')+1:]}})
	case "exec":
		return s.exec(request.Payload)
	case "subsystem":
		return s.subsystem(request.Payload)
	case wire.ExecPartRequest:
		return s.part(request.Payload)
	case wire.ExecRequest:
		return s.execArgv(request.Payload)
	}
	if s.program == nil {
		return false
	}
	return s.program.handle(request)
}

// setenv takes what a terminal and a forwarded agent need and nothing else, as sshd's AcceptEnv does.
func (s *session) setenv(payload []byte) bool {
	var variable struct{ Name, Value string }
	if ssh.Unmarshal(payload, &variable) != nil || strings.IndexByte(variable.Value, 0) >= 0 {
		return false
	}
	name := variable.Name
	category, isLocale := strings.CutPrefix(name, "LC_")
	isLocale = isLocale && category != "" && strings.Trim(category, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_") == ""
	if name != "TERM" && name != "COLORTERM" && name != "LANG" && name != "SSH_AUTH_SOCK" && !isLocale {
		return false
	}
	s.env = boot.Setenv(s.env, name+"="+variable.Value)
	return true
}

func (s *session) terminalRequest(payload []byte) bool {
	var wanted struct {
		Term          string
		Columns, Rows uint32
		Width, Height uint32 // in pixels
		Modes         []byte
	}
	if s.program != nil || ssh.Unmarshal(payload, &wanted) != nil || strings.IndexByte(wanted.Term, 0) >= 0 {
		return false
	}
	s.wanted = &wire.Terminal{Term: wanted.Term, Columns: wanted.Columns, Rows: wanted.Rows}
	s.modes = wanted.Modes
	return true
}

// shell is the user's own, if it is there.
func (s *session) shell() string {
	shell := boot.Getenv(s.env, "SHELL")
	if _, err := boot.LookPath(shell, s.env, "/"); err != nil || !strings.HasPrefix(shell, "/") {
		return "/bin/sh"
	}
	return shell
}

func (s *session) exec(payload []byte) bool {
	var line struct{ Command string }
	if ssh.Unmarshal(payload, &line) != nil || strings.IndexByte(line.Command, 0) >= 0 {
		return false
	}
	return s.start(boot.Command{Argv: []string{s.shell(), "-c", line.Command}})
}

func (s *session) subsystem(payload []byte) bool {
	var name struct{ Name string }
	if ssh.Unmarshal(payload, &name) != nil || name.Name != "sftp" || s.wanted != nil {
		return false
	}
	return s.start(boot.Command{Path: s.server.options.Program, Argv: []string{SFTPName}})
}

func (s *session) part(payload []byte) bool {
	if len(s.parts)+len(payload) > maxParts {
		return false
	}
	s.parts = append(s.parts, payload...)
	return true
}

func (s *session) execArgv(payload []byte) bool {
	if !s.part(payload) {
		return false
	}
	exec, err := wire.ParseExec(s.parts)
	s.parts = nil
	if err != nil {
		return false
	}
	s.env = boot.Setenv(s.env, exec.Env...)
	s.wanted = exec.Terminal
	return s.start(boot.Command{Argv: exec.Argv, Dir: exec.Dir})
}

// start starts the session's program. A program that can't be started still
// ends like one: with a message and an exit status.
func (s *session) start(command boot.Command) bool {
	if s.program != nil {
		return false
	}
	select {
	case <-s.server.options.Ready:
	case <-s.server.closing:
		return false
	}
	if command.Dir == "" {
		command.Dir = s.server.options.Dir
	}
	command.Env = s.env
	program, err := s.server.newProgram(command, s.wanted, s.modes)
	if err != nil {
		program = failedProgram(err)
	}
	s.program = program
	return true
}

// failedProgram is a program that says why it could not be started.
func failedProgram(err error) *program {
	code := 126
	var start *boot.StartError
	if errors.As(err, &start) {
		code = start.Code
	}
	var message bytes.Buffer
	fmt.Fprintf(&message, "forage-ctl: %v\r\n", err)
	if hint := forage.Hint(err); hint != "" {
		fmt.Fprintf(&message, "hint: %s\r\n", hint)
	}
	return &program{failure: message.Bytes(), code: code}
}
