package sandbox

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/config"
	"forage/internal/store"
	"forage/internal/supervisor"
	"forage/internal/unixsock"
)

// TestHaltEndsWhoeverDoesNot: a supervisor that says its sandbox has ended, and stays, is no
// hindrance, and neither is one that says nothing.
func TestHaltEndsWhoeverDoesNot(t *testing.T) {
	if dir := os.Getenv("FORAGE_STAYS"); dir != "" {
		stay(dir, os.Getenv("FORAGE_ANSWERS") == "true")
	}
	for _, answers := range []string{"true", "false"} {
		t.Run("answers="+answers, func(t *testing.T) { haltStaying(t, answers) })
	}
}

func haltStaying(t *testing.T, answers string) {
	defer func(before time.Duration) { goneLimit = before }(goneLimit)
	s := newService(t)
	staying(t, s, answers)
	goneLimit = 5 * time.Second // the wait for its end is in vain
	if err := s.halt(t.Context(), store.Record{Name: "box"}); err != nil || s.alive("box") {
		t.Errorf("it stays: %v", err)
	}
}

// TestWhoDoesNotAnswerIsNamed: a supervisor that was stopped does not hold up commands that want
// something of it.
func TestWhoDoesNotAnswerIsNamed(t *testing.T) {
	defer func(before time.Duration) { answerLimit = before }(answerLimit)
	s := newService(t)
	if _, err := s.Store.Create(t.Context(), store.Record{Name: "box", Runtime: "native", Phase: forage.PhaseRunning}, store.Ports{}); err != nil {
		t.Fatal(err)
	}
	staying(t, s, "false")
	answerLimit, s.Config = time.Second, &config.Config{}
	for what, ask := range map[string]func() error{
		"exec":  func() error { _, err := s.Exec(t.Context(), "box", []string{"true"}, Stdio{}); return err },
		"start": func() error { return s.Start(t.Context(), "box") },
		"network": func() error {
			_, err := s.Network(t.Context(), "box", NetworkChange{Mode: forage.NetworkNone})
			return err
		},
	} {
		ended := make(chan error, 1)
		go func() { ended <- ask() }()
		select {
		case err := <-ended:
			if !strings.Contains(forage.Hint(err), "stop box") {
				t.Errorf("%s: %v (%s)", what, err, forage.Hint(err))
			}
		case <-time.After(5 * time.Minute):
			t.Fatalf("%s waits", what)
		}
	}
}

// staying starts a supervisor that stays, until the test ends.
func staying(t *testing.T, s *Service, answers string) {
	t.Helper()
	other := exec.Command(os.Args[0], "-test.run=^TestHaltEndsWhoeverDoesNot$")
	other.Env = append(os.Environ(), "FORAGE_STAYS="+s.Places.Of("box").Dir, "FORAGE_ANSWERS="+answers)
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { other.Process.Kill(); other.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("it has not begun: %q, %v", line, err)
	}
}

// stay is a supervisor that answers that all is well, or nothing, and does nothing.
func stay(dir string, answers bool) {
	_, err := supervisor.Acquire(dir)
	if err != nil {
		panic(err)
	}
	listener, err := unixsock.Listen(filepath.Join(dir, "control.sock"))
	if err != nil {
		panic(err)
	}
	fmt.Println("begun")
	for {
		conn, err := listener.Accept()
		if err != nil {
			panic(err)
		}
		if !answers {
			go io.Copy(io.Discard, conn)
			continue
		}
		json.NewEncoder(conn).Encode(supervisor.Response{})
		json.NewDecoder(conn).Decode(&supervisor.Request{})
		conn.Close()
	}
}
