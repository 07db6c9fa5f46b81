// Package enginetest gives tests a container engine: a docker daemon of root's own, on a socket of its
// own, or podman with the configuration that a machine without systemd needs. What it starts ends with
// the test.
package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"forage/internal/testdir"
)

// patience bounds the start of a daemon.
const patience = time.Minute

// Use has clients of that engine find one, or skips the test. An ordinary user's docker is the one
// that the environment names.
func Use(t *testing.T, engine string) {
	t.Helper()
	if _, err := exec.LookPath(engine); err != nil {
		t.Skip("needs ", engine)
	}
	if engine == "podman" {
		usePodman(t)
		return
	}
	if os.Getuid() == 0 && os.Getenv("DOCKER_HOST") == "" {
		startDocker(t)
	}
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		t.Skipf("no docker that this user may use: %s", out)
	}
}

// startDocker starts a daemon.
func startDocker(t *testing.T) {
	program, err := exec.LookPath("dockerd")
	if err != nil {
		t.Skip("needs dockerd")
	}
	dir := testdir.Plain(t)
	socket := "unix://" + filepath.Join(dir, "docker.sock")
	daemon := exec.Command(program, "--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver", "overlay2",
		"--data-root", filepath.Join(dir, "root"), "--exec-root", filepath.Join(dir, "exec"), "-H", socket, "-p", filepath.Join(dir, "docker.pid"))
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	daemon.Stdout, daemon.Stderr = log, log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = daemon.Process.Signal(syscall.SIGTERM) // which ends its containerd, too
		_ = daemon.Wait()
	})
	t.Setenv("DOCKER_HOST", socket)
	for until := time.Now().Add(patience); exec.Command("docker", "info").Run() != nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(until) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("dockerd does not answer:\n%s", text)
		}
	}
}

// podmanConfig is for machines with hybrid control groups and without systemd.
const podmanConfig = `[containers]
default_ulimits = ["nofile=20000:20000", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`

func usePodman(t *testing.T) {
	dir := testdir.Plain(t)
	root, run := filepath.Join(dir, "root"), filepath.Join(dir, "run")
	storage := fmt.Sprintf("[storage]\ndriver = %q\ngraphroot = %q\nrootless_storage_path = %q\nrunroot = %q\n", "overlay", root, root, run)
	for name, text := range map[string]string{"containers.conf": podmanConfig, "storage.conf": storage} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("CONTAINERS_CONF", filepath.Join(dir, "containers.conf"))
	t.Setenv("CONTAINERS_STORAGE_CONF", filepath.Join(dir, "storage.conf"))
	t.Setenv("XDG_RUNTIME_DIR", dir)
	if out, err := exec.Command("podman", "info").CombinedOutput(); err != nil {
		t.Skipf("no podman that this user may use: %s", out)
	}
	if os.Getuid() != 0 {
		t.Cleanup(func() { // what belongs to subordinate users, and the process that holds their namespace
			_ = exec.Command("podman", "unshare", "rm", "-rf", root, run).Run()
			_ = exec.Command("podman", "system", "migrate").Run()
		})
	}
}
