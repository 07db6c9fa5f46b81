package store_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/store"
	"forage/internal/testdir"

	"golang.org/x/sys/unix"
)

// roleVar makes this test binary another process that uses a store.
const roleVar = "FORAGE_STORE_TEST"

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVar); role != "" {
		os.Exit(process(role, os.Args[len(os.Args)-2], os.Args[len(os.Args)-1]))
	}
	os.Exit(m.Run())
}

// process is one of several that work on the store in dir.
func process(role, dir, arg string) int {
	s, err := store.Open(dir)
	if err != nil {
		return fail(err)
	}
	switch role {
	case "cycle": // create and delete arg again and again
		for range 25 {
			if err := cycle(s, arg); err != nil {
				return fail(err)
			}
		}
	case "create": // one that stays
		rec, err := s.Create(context.Background(), record(arg), ports)
		if err != nil {
			return fail(err)
		}
		fmt.Println(rec.Port, rec.NetworkSlot)
	case "save": // until killed
		for i := 0; ; i++ {
			rec, err := s.Load(arg)
			if err != nil {
				return fail(err)
			}
			rec.Reason = strings.Repeat(strconv.Itoa(i%10), i%5000)
			if err := s.Save(rec); err != nil {
				return fail(err)
			}
			if i == 0 {
				fmt.Println("saving")
			}
		}
	case "hold": // a lock, until killed
		if _, err := s.Lock(context.Background(), arg); err != nil {
			return fail(err)
		}
		fmt.Println("held")
		return fail(unix.Pause()) // not select: Go ends a program whose goroutines all wait
	case "outlived": // holds a lock while a program runs that outlives it
		if _, err := s.Lock(context.Background(), arg); err != nil {
			return fail(err)
		}
		_, err := hostexec.Run(context.Background(), hostexec.Command{
			Outlives: true, Argv: []string{"sh", "-c", `: >begun; until [ -e end ]; do sleep 0.01; done`}, Dir: dir,
		})
		return fail(err)
	}
	return 0
}

func fail(err error) int {
	fmt.Fprintln(os.Stderr, err)
	return forage.ExitCode(err)
}

var ports = store.Ports{Listen: "127.0.0.1", From: 28100, To: 28199}

// cycle is one life of a sandbox; another of the same name is waited for.
func cycle(s *store.Store, name string) error {
	unlock, err := s.Lock(context.Background(), name)
	if err != nil {
		return err
	}
	defer unlock()
	rec, err := s.Create(context.Background(), record(name), ports)
	if err != nil {
		return fmt.Errorf("creating under the lock: %w", err)
	}
	rec.Phase = forage.PhaseRunning
	if err := s.Save(rec); err != nil {
		return err
	}
	if err := os.Mkdir(s.Paths(name).Generated, 0o700); err != nil {
		return err
	}
	if again, err := s.Load(name); err != nil || again.Phase != forage.PhaseRunning || again.Port != rec.Port {
		return fmt.Errorf("loaded %+v: %w", again, err)
	}
	return s.Delete(name, false)
}

func command(role, dir, arg string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$", dir, arg)
	cmd.Env = append(os.Environ(), roleVar+"="+role)
	return cmd
}

// TestOneNameOnce: of twenty that want the same name at once, one gets it, and
// of twenty with different names each has a port and a slot of its own.
func TestOneNameOnce(t *testing.T) {
	s := open(t)
	outputs := make(chan string)
	for i := range 40 {
		name := "same"
		if i%2 == 0 {
			name = fmt.Sprintf("own-%d", i)
		}
		go func() {
			out, err := command("create", s.Dir(), name).Output()
			var exit *exec.ExitError
			switch {
			case errors.As(err, &exit) && exit.ExitCode() == 7 && name == "same":
				outputs <- "refused"
			case err != nil:
				outputs <- "failed: " + err.Error()
			default:
				outputs <- string(out)
			}
		}()
	}
	seen := map[string]int{}
	for range 40 {
		out := <-outputs
		seen[out]++
		if out != "refused" && seen[out] > 1 {
			t.Errorf("%q was given out twice", out)
		}
		for _, part := range strings.Fields(out) {
			if n, err := strconv.Atoi(part); err == nil {
				if seen[part]++; seen[part] > 1 {
					t.Errorf("%d was given out twice", n)
				}
			} else if out != "refused" {
				t.Error(out)
			}
		}
	}
	if seen["refused"] != 19 {
		t.Errorf("%d of 20 were refused the same name", seen["refused"])
	}
}

// TestKilledWhileSaving: whenever a process is killed, the record is whole.
func TestKilledWhileSaving(t *testing.T) {
	s := open(t)
	create(t, s, "one")
	for range 30 {
		cmd := command("save", s.Dir(), "one")
		killAfterFirstLine(t, cmd)
		if _, err := s.Load("one"); err != nil {
			t.Fatal(err)
		}
	}
}

func killAfterFirstLine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	out, err := cmd.StdoutPipe()
	testdir.Must(t, err)
	testdir.Must(t, cmd.Start())
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	cmd.Process.Signal(syscall.SIGKILL)
	cmd.Wait()
}

func TestPorts(t *testing.T) {
	s := open(t)
	// Which ports are free is only known of an address that no other test has, beside the range
	// that connections get theirs from.
	address, busy := fmt.Sprintf("127.77.%d.%d", os.Getpid()>>8&0xff, os.Getpid()&0xff), ports.To+1
	l, err := net.Listen("tcp", net.JoinHostPort(address, strconv.Itoa(busy)))
	testdir.Must(t, err)
	defer l.Close()
	range3 := store.Ports{Listen: address, From: busy, To: busy + 2, Skip: []int{busy + 1}}
	rec, err := s.Create(t.Context(), record("one"), range3)
	if err != nil || rec.Port != busy+2 {
		t.Fatalf("port %d of %+v, %v", rec.Port, range3, err)
	}
	_, err = s.Create(t.Context(), record("two"), range3)
	if !errors.Is(err, forage.ErrNoPort) || forage.Hint(err) == "" {
		t.Errorf("no port left: %v", err)
	}
	if _, err := s.Load("two"); !errors.Is(err, forage.ErrNotFound) {
		t.Errorf("it was made all the same: %v", err)
	}
	bad := store.Ports{Listen: "192.0.2.1", From: 2000, To: 2001}
	if _, err := s.Create(t.Context(), record("three"), bad); !errors.Is(err, forage.ErrNoPort) {
		t.Errorf("an address that is not ours: %v", err)
	}
	run := record("run")
	run.Plan.Ephemeral = true
	if rec, err := s.Create(t.Context(), run, store.Ports{}); err != nil || rec.Port != 0 || rec.NetworkSlot != 0 {
		t.Errorf("a run has port %d and slot %d, %v", rec.Port, rec.NetworkSlot, err)
	}
	testdir.Must(t, s.Delete("one", false))
	if rec, err := s.Create(t.Context(), record("two"), range3); err != nil || rec.Port != busy+2 || rec.NetworkSlot != 1 {
		t.Errorf("what was given back is not used again: %+v, %v", rec, err)
	}
}

func TestDeleteLeavesNothing(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := open(t)
		create(t, s, "one")
		p := s.Paths("one")
		testdir.Must(t, os.Mkdir(p.Generated, 0o700))
		for _, path := range []string{p.Generated + "/host_key", p.Log, p.Log + ".1", p.Usage, p.Audit, p.Audit + ".head"} {
			testdir.Must(t, os.WriteFile(path, []byte("x"), 0o600))
		}
		testdir.Must(t, s.Delete("one", keep))
		found, err := filepath.Glob(filepath.Join(s.Dir(), "sandboxes", "*"))
		if err != nil || (keep && len(found) != 2) || (!keep && len(found) != 0) {
			t.Errorf("keepAudit %v: left %v, %v", keep, found, err)
		}
	}
}
