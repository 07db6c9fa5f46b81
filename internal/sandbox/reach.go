package sandbox

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"

	"forage"
	"forage/internal/agent"
	"forage/internal/audit"
	"forage/internal/guest/guestclient"
	"forage/internal/sshkeys"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// Exec runs a command in a running sandbox and returns its exit code.
func (s *Service) Exec(ctx context.Context, name string, argv []string, stdio Stdio) (int, error) {
	if len(argv) == 0 {
		return 0, forage.WithHint(forage.Errorf(forage.ErrUsage, "no command to run"), "put it after --")
	}
	return s.reach(ctx, name, "exec", argv, stdio)
}

// detachNote is shown by tmux for a moment to who attaches.
const detachNote = "#{prefix} d detaches: the agent goes on"

// Attach shows the sandbox's tmux session on the caller's terminal. Of an agent that has ended it
// says so first.
func (s *Service) Attach(ctx context.Context, name string, stdio Stdio) (int, error) {
	stdio.TTY = true
	if record, err := s.Host.Store.Load(name); err == nil && s.Host.Alive(name) { // one that does not answer says so when it is reached for
		answer, err := s.client(name).Status(ctx)
		if err == nil {
			refused := s.Host.WithSets(ctx, record.Plan, answer.Refused)
			s.tellRefusals(name, refused)
			s.shown(name, refused)
			s.tellEnded(name, answer)
		}
		if err == nil && answer.Agent == agent.Ended && answer.Tmux == "none" {
			return 0, forage.WithHint(forage.Errorf(forage.ErrNotFound, "the session of %s is gone", name), "`forage-ctl start "+name+"` starts it again")
		}
	}
	return s.reach(ctx, name, "ssh", Gateway{s}.AttachCommand(false), stdio)
}

// tellEnded says how the agent has ended, if it has, and what can be done.
func (s *Service) tellEnded(name string, answer supervisor.Response) {
	if answer.Agent != agent.Ended {
		return
	}
	how := ""
	if answer.ExitCode != nil {
		how = fmt.Sprintf(" with status %d", *answer.ExitCode)
	}
	s.Notify(fmt.Sprintf("the agent has ended%s: `forage-ctl start %s` starts it again, `forage-ctl logs %s` shows what it printed, `forage-ctl shell %s` opens a shell",
		how, name, name, name))
}

// Shell opens a new window with a shell in the sandbox's tmux session and shows it.
func (s *Service) Shell(ctx context.Context, name string, stdio Stdio) (int, error) {
	stdio.TTY = true
	return s.reach(ctx, name, "shell", []string{
		"tmux", "new-session", "-A", "-s", forage.SessionName, ";", "new-window", "-t", "=" + forage.SessionName + ":",
	}, stdio)
}

// reach runs argv in a running sandbox, after its supervisor has put on record
// that it will.
func (s *Service) reach(ctx context.Context, name, method string, argv []string, stdio Stdio) (int, error) {
	record, err := s.running(name)
	if err != nil {
		return 0, err
	}
	if err := s.client(name).Record(ctx, execEvent(method, argv)); err != nil {
		return 0, err
	}
	client, err := s.connect(ctx, record)
	if err != nil {
		return 0, err
	}
	defer client.Close()
	if method != "exec" {
		ringing, still := context.WithCancel(ctx)
		defer still()
		s.ring(ringing, record, stdio.Out)
	}
	exit, err := runOver(ctx, client, record.Plan, argv, stdio)
	if ctx.Err() == nil {
		s.Work.BringSoon(ctx, record.Plan)
	}
	return exit, err
}

// running loads the record of a sandbox that must be running.
func (s *Service) running(name string) (store.Record, error) {
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return store.Record{}, err
	}
	if !s.Host.Alive(name) {
		return store.Record{}, forage.WithHint(
			fmt.Errorf("sandbox %q is not running", name), "start it with `forage-ctl start "+name+"`")
	}
	return record, nil
}

// execEvent says that a command will run inside. Arguments can hold secrets:
// only the command's name is kept.
func execEvent(method string, argv []string) audit.Event {
	return audit.Event{Kind: audit.Exec, Verdict: "allow", Method: method, Path: argv[0]}
}

// connect reaches the guest of a running sandbox.
func (s *Service) connect(ctx context.Context, record store.Record) (*guestclient.Client, error) {
	return guestclient.Dial(ctx, supervisor.SSHSocket(s.Host.Places.Of(record.Name).Dir))
}

// SSHCommand is the OpenSSH command line that logs in to the sandbox. With
// jump it is for use on another machine, which reaches this one as jump.
func (s *Service) SSHCommand(name, jump string) ([]string, error) {
	record, err := s.Host.Store.Load(name)
	if err != nil {
		return nil, err
	}
	if record.Port == 0 {
		return nil, forage.Errorf(forage.ErrUnsupported, "sandbox %q was made by run and has no SSH port", name)
	}
	command := []string{"ssh", "-p", strconv.Itoa(record.Port),
		"-o", "HostKeyAlias=" + hostAlias(name),
		"-o", "ForwardAgent=no", "-o", "ForwardX11=no",
	}
	if jump != "" {
		command = append(command, "-J", jump)
	} else {
		command = append(command,
			"-i", filepath.Join(s.Host.Places.State, sshkeys.ClientName), "-o", "IdentitiesOnly=yes",
			"-o", "UserKnownHostsFile="+sshWord(s.Host.Places.Of(name).KnownHosts), "-o", "StrictHostKeyChecking=yes")
	}
	return append(command, forage.UserName+"@"+s.sshHost()), nil
}
