package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// benchUser is who measures when root starts.
const benchUser = "forage-bench"

// The programs that build makes.
const (
	ctlName    = "forage-ctl"
	selfName   = "bench"
	nothing    = "nothing" // the empty Go program
	readerFile = 3         // descriptor of the root process that reads memory figures
)

// build makes the programs to measure in dir, and bin/forage-ctl in the checkout.
func build(ctx context.Context, dir string) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	source := filepath.Join(dir, "nothing.go")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	for _, p := range []struct{ name, from string }{{ctlName, "./cmd/forage-ctl"}, {nothing, source}, {selfName, "./bench"}} {
		out := filepath.Join(dir, p.name)
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, p.from)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("building %s: %w", p.name, err)
		}
		if err := os.Chmod(out, 0o755); err != nil {
			return err
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, ctlName))
	if err == nil {
		err = os.MkdirAll("bin", 0o755)
	}
	if err != nil {
		return err
	}
	fresh := filepath.Join("bin", ctlName+".new")
	return errors.Join(os.WriteFile(fresh, raw, 0o755), os.Rename(fresh, filepath.Join("bin", ctlName)))
}

// asOrdinaryUser runs the rest as forage-bench, and reads for it what only root may.
func asOrdinaryUser(ctx context.Context, o options) error {
	who, err := user.Lookup(benchUser)
	if err != nil {
		if err := (command{argv: []string{"useradd", "-m", benchUser}}).run(ctx); err != nil {
			return fmt.Errorf("making an ordinary user: %w", err)
		}
		if who, err = user.Lookup(benchUser); err != nil {
			return err
		}
	}
	fmt.Fprintf(os.Stderr, "bench: root started this: measuring as %s\n", benchUser)
	uid, err := strconv.ParseUint(who.Uid, 10, 32)
	if err != nil {
		return err
	}
	gid, err := strconv.ParseUint(who.Gid, 10, 32)
	if err != nil {
		return err
	}
	ours, theirs, err := socketPair()
	if err != nil {
		return err
	}
	defer ours.Close()
	go serveReader(ours)
	args := append([]string{"-programs", o.programs}, os.Args[1:]...)
	cmd := exec.CommandContext(ctx, filepath.Join(o.programs, selfName), args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Env = []string{"HOME=" + who.HomeDir, "USER=" + benchUser, "PATH=" + os.Getenv("PATH"), "FORAGE_BENCH_PEERS=" + peersDir()}
	cmd.Dir = who.HomeDir
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	err = cmd.Start()
	theirs.Close()
	if err != nil {
		return err
	}
	return cmd.Wait()
}

func (c command) run(ctx context.Context) error {
	_, err := c.output(ctx)
	return err
}

func socketPair() (ours net.Conn, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	f := os.NewFile(uintptr(fds[0]), "reader")
	ours, err = net.FileConn(f)
	return ours, os.NewFile(uintptr(fds[1]), "reader"), errors.Join(err, f.Close())
}

// serveReader answers each line, a process id, with the process's proportional memory
// in KiB, or -1: Forage's processes can't be looked into by their own user.
func serveReader(conn net.Conn) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		pid, err := strconv.Atoi(lines.Text())
		kib := int64(-1)
		if err == nil {
			kib = readPSS(pid)
		}
		if _, err := fmt.Fprintln(conn, kib); err != nil {
			return
		}
	}
}

// readPSS gives a process's proportional memory in KiB (proc(5), smaps_rollup), or -1.
func readPSS(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return -1
	}
	for _, line := range strings.Split(string(raw), "\n") {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			if kib, err := strconv.ParseInt(fields[1], 10, 64); err == nil {
				return kib
			}
		}
	}
	return -1
}

// peersDir is where bench/peers.sh puts what does not come from the system's packages.
func peersDir() string {
	if dir := os.Getenv("FORAGE_BENCH_PEERS"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/cache/forage-bench"
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "/var/cache/forage-bench"
	}
	return filepath.Join(cache, "forage-bench")
}

// bench is one run of the suite.
type bench struct {
	o         options
	dir       string // scratch: state, configuration, workspaces
	project   string
	ctl       string
	self      string
	nothing   string
	env       []string // of ours and of the peers
	server    *server
	tlsServer *tlsServer
	reader    net.Conn // nil: no memory figures are read
	readLines *bufio.Scanner
}

func newBench(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "forage-bench-")
	if err != nil {
		return nil, err
	}
	b := &bench{
		o: o, dir: dir, ctl: filepath.Join(o.programs, ctlName), self: filepath.Join(o.programs, selfName), nothing: filepath.Join(o.programs, nothing),
		project: filepath.Join(dir, "workspace"),
	}
	b.env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "FORAGE_") }),
		"FORAGE_CONFIG="+b.config(), "FORAGE_STATE_DIR="+filepath.Join(dir, "state"), "FORAGE_RUNTIME_DIR="+filepath.Join(dir, "run"))
	if conn, err := inheritedReader(); err == nil {
		b.reader, b.readLines = conn, bufio.NewScanner(conn)
	}
	if b.server, err = startServer(o.size); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.tlsServer, err = startTLSServer(dir); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, errors.Join(os.Mkdir(b.project, 0o755), b.writeConfig(false))
}

// inheritedReader is the socket to the root process, if it started us.
func inheritedReader() (net.Conn, error) {
	f := os.NewFile(readerFile, "reader")
	if f == nil {
		return nil, os.ErrInvalid
	}
	conn, err := net.FileConn(f)
	return conn, errors.Join(err, f.Close())
}

func (b *bench) config() string { return filepath.Join(b.dir, "config.json") }

// host is the server's name inside a sandbox, and benchTemplate is the template that
// treats the names of the TLS server as they say.
const (
	host          = "bench.test"
	benchTemplate = "bench"
)

// writeConfig lets sandboxes reach our servers by name, and gives them enough ports. Only
// what speaks TLS gets an authority of its own to trust, which costs at the start.
func (b *bench) writeConfig(trust bool) error {
	type table = map[string]any
	secret := filepath.Join(b.dir, "secret")
	resolve := table{host + ":8080": b.server.addr, host + ":80": b.server.addr}
	network := table{"resolve": resolve}
	if trust {
		network["upstreamCA"] = b.tlsServer.ca
	}
	hosts := []string{splicedHost, inspectHost, injectedHost}
	for _, name := range hosts {
		resolve[name+":443"] = b.tlsServer.addr
	}
	raw, err := json.Marshal(table{
		"portRange": table{"from": 21000, "to": 21999},
		"network":   network,
		"secrets":   table{"bench": table{"file": secret, "hosts": []string{injectedHost}, "header": "x-api-key"}},
		"templates": table{benchTemplate: table{
			"allowedHosts": hosts, "rules": []table{{"host": inspectHost, "inspect": true}}, "secrets": []string{"bench"},
		}},
	})
	if err == nil {
		err = os.WriteFile(secret, []byte("a value of some length, as keys have"), 0o600)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(b.config(), raw, 0o600)
}

func (b *bench) close() error {
	down := b.forage("down", "--all", "--force").run(context.Background())
	if b.server != nil {
		b.server.close()
	}
	if b.tlsServer != nil {
		b.tlsServer.close()
	}
	if b.reader != nil {
		b.reader.Close()
	}
	return errors.Join(down, os.RemoveAll(b.dir))
}

// forage is a command of ours.
func (b *bench) forage(args ...string) command {
	return command{argv: append([]string{b.ctl}, args...), env: b.env, dir: b.project}
}

// earlier is a command of an earlier version of ours, which has a state of its own.
func (b *bench) earlier(args ...string) command {
	if b.o.before == "" {
		return command{argv: []string{"an earlier version, see -before,"}}
	}
	state := filepath.Join(b.dir, "before")
	return command{argv: append([]string{b.o.before}, args...), dir: b.project,
		env: append(slices.Clone(b.env), "FORAGE_STATE_DIR="+filepath.Join(state, "state"), "FORAGE_RUNTIME_DIR="+filepath.Join(state, "run"))}
}

// peer is a command of a peer, with the same environment.
func (b *bench) peer(argv ...string) command {
	return command{argv: argv, env: b.env, dir: b.project}
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}

// withSandbox runs f beside a running sandbox with an idle agent.
func (b *bench) withSandbox(ctx context.Context, name string, args []string, f func() ([]row, error)) ([]row, error) {
	return b.withSandboxOn(ctx, name, append([]string{"-w", b.project}, args...), f)
}

// withSandboxOn is withSandbox with a workspace among args.
func (b *bench) withSandboxOn(ctx context.Context, name string, args []string, f func() ([]row, error)) ([]row, error) {
	up := append([]string{"up", name}, args...)
	if err := b.forage(append(up, "--", "sleep", "infinity")...).run(ctx); err != nil {
		return nil, err
	}
	rows, err := f()
	return rows, errors.Join(err, b.forage("down", "--force", name).run(context.WithoutCancel(ctx)))
}
