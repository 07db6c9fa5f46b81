package child

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/control"
	"forage/internal/nofile"
	"forage/internal/rootfs"
	"forage/internal/runtime"
	"forage/internal/unixsock"
)

// hostIDs are who the agent is on the host: the caller, or with root another.
func hostIDs() (uid, gid int) {
	if os.Geteuid() == 0 {
		return 54321, 54321
	}
	return os.Geteuid(), os.Getegid()
}

// baseSpec is a sandbox with dir as its workspace.
func baseSpec(t testing.TB, dir string) forage.Spec {
	t.Helper()
	uid, gid := hostIDs()
	who := forage.Identity{User: "agent", UID: uid, GID: gid, Home: "/home/agent", HostUID: uid, HostGID: gid}
	view, err := rootfs.Host(os.DirFS("/"), "test", who)
	if err != nil {
		t.Fatal(err)
	}
	return forage.Spec{
		Name:     "test",
		Identity: who,
		Rootfs:   forage.Rootfs{Kind: forage.RootfsHost},
		Mounts:   append(view.Mounts, forage.Mount{Source: dir, Target: forage.WorkspacePath, Writable: true}),
		Links:    view.Links,
		Files:    view.Files,
	}
}

// boxed starts a sandbox and ends it with the test.
func boxed(t testing.TB, spec forage.Spec, s script) (*instance, error) {
	t.Helper()
	run := filepath.Join(t.TempDir(), "run")
	i, err := boxedIn(t, run, spec, s)
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if err := i.Stop(context.Background(), 0); err != nil {
			t.Error(err)
		}
		i.Egress().Close()
		i.Control().Close()
	})
	return i, nil
}

// boxedIn starts a sandbox with run as the run-time folder.
func boxedIn(t testing.TB, run string, spec forage.Spec, s script) (*instance, error) {
	t.Helper()
	dir := filepath.Join(run, spec.Name)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	guest, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	i, err := local(run).Start(ctx, runtime.Request{Spec: spec, Dir: dir, SSH: sshSocket(t, dir), Guest: guest})
	if err != nil {
		return nil, err
	}
	return i.(*instance), nil
}

func sshSocket(t testing.TB, dir string) *os.File {
	os.Remove(filepath.Join(dir, "ssh.sock"))
	l, err := unixsock.Listen(filepath.Join(dir, "ssh.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// inside runs a shell script in a sandbox and returns what it printed.
func inside(t testing.TB, spec forage.Spec, shell string) outcome {
	t.Helper()
	i, err := boxed(t, spec, script{Argv: []string{"/bin/sh", "-c", shell}, Env: []string{"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME=/home/agent"}})
	if err != nil {
		t.Fatal(err)
	}
	return answer(t, i)
}

func answer(t testing.TB, i *instance) outcome {
	t.Helper()
	f, _, err := i.Control().Receive()
	if err != nil {
		<-i.Done()
		t.Fatalf("%v: %v", err, i.Err())
	}
	var a control.AnswerBody
	if err := f.Decode(&a); err != nil {
		t.Fatal(err)
	}
	var o outcome
	if err := json.Unmarshal([]byte(a.Session), &o); err != nil {
		t.Fatal(err)
	}
	return o
}

// local is the runtime whose guests this process clones.
func local(dir string) *Runtime {
	return New(Config{Name: "native", Namespaces: Clone{}, Dir: dir})
}

// TestOpenFiles: Go's runtime raises the soft limit of each process of ours, for itself alone.
func TestOpenFiles(t *testing.T) {
	wantOut(t, inside(t, baseSpec(t, makeTree(t)), "ulimit -Sn; ulimit -Hn"), fmt.Sprintf("%d\n%d", nofile.Inherited().Soft, nofile.Inherited().Hard))
}

func TestNoProgram(t *testing.T) {
	c, err := Clone{}.Command("/there/is/none", Argument, trialIdentity())
	must(t, err)
	for range 3 {
		if _, _, err := vfork(c, []uintptr{0, 1, 2}); !errors.Is(err, unix.ENOENT) {
			t.Errorf("executing what is not there: %v", err)
		}
	}
}
