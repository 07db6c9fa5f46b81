package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"forage/internal/guest"
	"forage/internal/runtime"
	"forage/internal/unixsock"
)

func (s *Sandbox) startRuntime(ctx context.Context) error {
	listener, err := unixsock.Listen(SSHSocket(s.setup.Dir))
	if err != nil {
		return err
	}
	ssh, err := listener.File()
	if err := errors.Join(err, listener.Close()); err != nil {
		return fmt.Errorf("making the SSH socket: %w", err)
	}
	config, err := json.Marshal(s.guestConfig())
	if err != nil {
		return err
	}
	request := runtime.Request{Spec: s.setup.Plan.Spec, Dir: s.setup.Dir, SSH: ssh, SSHPath: SSHSocket(s.setup.Dir), Guest: config}
	if request.Spec.Session {
		if request.Log, err = s.openLog(); err != nil {
			return err
		}
	}
	s.instance, err = s.setup.Runtime.Start(ctx, request)
	if err != nil {
		return err
	}
	s.undo.add("what runs inside", func() error { return s.instance.Stop(context.Background(), 0) })
	return nil
}

// openLog returns the write end of a pipe whose other end fills NAME.log.
func (s *Sandbox) openLog() (*os.File, error) {
	log, err := openLog(s.setup.LogPath)
	if err != nil {
		return nil, err
	}
	read, write, err := os.Pipe()
	if err != nil {
		log.Close()
		return nil, fmt.Errorf("making the log's pipe: %w", err)
	}
	ended, filled := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(filled)
		defer read.Close()
		log.fill(read, ended, &s.activity.watcher)
	}()
	s.undo.add("the log", func() error { // when nothing runs inside any more
		close(ended)
		<-filled
		return nil
	})
	return write, nil
}

// first is the program of argv; "" of none.
func first(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	return argv[0]
}

func (s *Sandbox) guestConfig() guest.Config {
	spec := s.setup.Plan.Spec
	env := make([]string, 0, len(spec.Env)+len(s.setup.HostEnv))
	for name, value := range spec.Env {
		env = append(env, name+"="+value)
	}
	for name, value := range s.setup.HostEnv {
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	var keys []string
	if s.setup.HostKey != nil {
		keys = append([]string{s.setup.ClientKey}, s.setup.Plan.AuthorizedKeys...)
	}
	return guest.Config{
		Name:           spec.Name,
		HostKey:        s.setup.HostKey,
		AuthorizedKeys: keys,
		Env:            env,
		Dir:            spec.Dir,
		Init:           spec.Init,
		Command:        spec.Command,
		Session:        spec.Session,
		TasksMax:       spec.Limits.TasksMax,
		KillFirst:      spec.Limits.MemoryMax > 0,
	}
}
