package sandbox

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"forage/internal/supervisor"
	"forage/internal/testdir"
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
	s := testService(t)
	staying(t, s, answers)
	asked, cancel := context.WithTimeout(t.Context(), time.Second) // it is in vain
	defer cancel()
	testdir.Fails(t, "asked", context.DeadlineExceeded, s.askToEnd(asked, "box"))
	if err := s.end(t.Context(), "box"); err != nil || s.Host.Alive("box") {
		t.Errorf("it stays: %v", err)
	}
}

// staying starts a supervisor that stays, until the test ends.
func staying(t *testing.T, s *Service, answers string) {
	t.Helper()
	other := exec.Command(os.Args[0], "-test.run=^TestHaltEndsWhoeverDoesNot$")
	other.Env = append(os.Environ(), "FORAGE_STAYS="+s.Host.Places.Of("box").Dir, "FORAGE_ANSWERS="+answers)
	out, err := other.StdoutPipe()
	if err == nil {
		err = other.Start()
	}
	testdir.Must(t, err)
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
