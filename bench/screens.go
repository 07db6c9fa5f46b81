package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"

	"forage/internal/sshkeys"
)

// screens is what a person waits for who looks at sandboxes: keys through the gateway, the picker,
// and what the doors that stay open hold in memory.
func (b *bench) screens(ctx context.Context) ([]row, error) {
	const name = "bench-screens"
	return b.withSandbox(ctx, name, nil, func() ([]row, error) {
		gateway, address, err := b.serve(ctx, regexp.MustCompile(`address=([0-9.:]+)`), "gateway", "--listen", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer end(gateway)
		board, _, err := b.serve(ctx, regexp.MustCompile(`(http://\S+)`), "web", "--listen", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer end(board)
		var rows []row
		echo, err := b.echoes(ctx, name, address)
		rows = append(rows, echo)
		if err == nil {
			rows = append(rows, b.resident("memory of an idle gateway (PSS)", gateway), b.resident("memory of an idle board (PSS)", board))
		}
		frames, framesErr := b.frames(ctx, name)
		return append(rows, frames...), errors.Join(err, framesErr)
	})
}

// serve starts a service of ours, and finds in what it says where it listens.
func (b *bench) serve(ctx context.Context, where *regexp.Regexp, args ...string) (*exec.Cmd, string, error) {
	cmd := b.forage(args...).cmd(ctx)
	read, write, err := os.Pipe()
	if err != nil {
		return nil, "", err
	}
	cmd.Stdout, cmd.Stderr = write, write
	err = cmd.Start()
	write.Close()
	if err != nil {
		return nil, "", err
	}
	lines := bufio.NewScanner(read)
	for lines.Scan() {
		if found := where.FindStringSubmatch(lines.Text()); found != nil {
			go io.Copy(io.Discard, read)
			return cmd, found[1], nil
		}
	}
	end(cmd)
	return nil, "", fmt.Errorf("%s does not say where it listens", args[0])
}

func end(cmd *exec.Cmd) {
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
}

// echoes compares a key's way through the gateway with that through the sandbox's own SSH port.
func (b *bench) echoes(ctx context.Context, name, gateway string) (row, error) {
	key, err := sshkeys.Client(filepath.Join(b.dir, "state"))
	if err != nil {
		return row{}, err
	}
	out, err := b.forage("status", name, "-o", "json").output(ctx)
	if err != nil {
		return row{}, err
	}
	var status struct {
		Port int `json:"port"`
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return row{}, err
	}
	ours, err := dialEcho(gateway, name, key)
	if err != nil {
		return row{}, fmt.Errorf("the gateway: %w", err)
	}
	defer ours.Close()
	direct, err := dialEcho(fmt.Sprintf("127.0.0.1:%d", status.Port), "agent", key)
	if err != nil {
		return row{}, fmt.Errorf("the sandbox's own port: %w", err)
	}
	defer direct.Close()
	s := interleave(ctx, 20*b.o.runs, ours.key, direct.key)
	r := compare("a key's echo through the gateway, and through the sandbox's own SSH port", s[0], s[1], noGoal)
	more := s[0].median() - s[1].median()
	r.target, r.note = verdict("at most 1 ms more", more <= time.Millisecond), short(more)+" more"
	return r, nil
}

// echo is a terminal inside, over SSH, that prints what is typed.
type echo struct {
	*ssh.Client
	in  io.Writer
	out io.Reader
}

func dialEcho(address, user string, key ssh.Signer) (*echo, error) {
	client, err := ssh.Dial("tcp", address, &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), // on loopback, and for no secret
	})
	if err != nil {
		return nil, err
	}
	e := &echo{Client: client}
	session, err := client.NewSession()
	if err == nil {
		e.in, err = session.StdinPipe()
	}
	if err == nil {
		e.out, err = session.StdoutPipe()
	}
	if err == nil {
		err = session.RequestPty("xterm", 24, 80, ssh.TerminalModes{})
	}
	if err == nil {
		err = session.Start("cat")
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return e, nil
}

// key is a contestant.
func (e *echo) key(context.Context) (time.Duration, error) {
	start := time.Now()
	_, err := e.in.Write([]byte{'x'})
	if err == nil {
		_, err = io.ReadFull(e.out, make([]byte, 1))
	}
	return time.Since(start), err
}

// resident is the memory of a service of ours that nobody uses now.
func (b *bench) resident(what string, cmd *exec.Cmd) row {
	time.Sleep(5 * time.Second) // what follows a start is not idling
	r := row{what: what}
	kib, err := b.pss(cmd.Process.Pid)
	if err != nil {
		r.note = oneLine(err.Error())
		return r
	}
	r.ours, r.target = fmt.Sprintf("%.1f MB", float64(kib)*1.024/1000), verdict("at most 20 MB", kib*1024 <= 20e6)
	peer := b.peer("python3", "-m", "http.server", "--bind", "127.0.0.1", "0").cmd(context.Background())
	if peer.Start() != nil {
		return r
	}
	defer end(peer)
	time.Sleep(2 * time.Second)
	if own, err := b.pss(peer.Process.Pid); err == nil {
		r.peer, r.ratio, r.note = fmt.Sprintf("%.1f MB", float64(own)*1.024/1000), fmt.Sprintf("%.3g", float64(kib)/float64(own)), "the peer is python3's http.server"
	}
	return r
}

// manyRows is how many sandboxes the list has in frames.
const manyRows = 200

// frames is how soon the picker shows something, and something else.
func (b *bench) frames(ctx context.Context, name string) ([]row, error) {
	first := interleave(ctx, b.o.runs, b.firstFrame("Sandboxes:", b.forage("pick")), b.firstFrame("load average", b.peer("top")))
	rows := []row{within("first frame of the picker, and of `top`", first[0], first[1], 50*time.Millisecond)}
	folder := filepath.Join(b.dir, "state", "sandboxes")
	record, err := os.ReadFile(filepath.Join(folder, name+".json"))
	if err != nil {
		return rows, err
	}
	for i := range manyRows - 1 {
		copied := fmt.Sprintf("bench-row-%03d", i)
		file := filepath.Join(folder, copied+".json")
		text := strings.ReplaceAll(strings.Replace(string(record), `"running"`, `"stopped"`, 1), name, copied)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return rows, err
		}
		defer os.Remove(file)
	}
	lines := filepath.Join(b.dir, "lines")
	if err := os.WriteFile(lines, []byte(strings.Repeat("a line of some length\n", manyRows)), 0o600); err != nil {
		return rows, err
	}
	first = interleave(ctx, b.o.runs, b.firstFrame("bench-row-000", b.forage("pick")))
	rows = append(rows, within("the list of 200 in the picker, from its start", first[0], sample{}, 0))
	ours, err := b.screen(b.forage("pick"), "bench-row-000")
	if err != nil {
		return rows, err
	}
	defer ours.close()
	peer, err := b.screen(b.peer("less", lines), "a line")
	if err != nil {
		return rows, err
	}
	defer peer.close()
	s := interleave(ctx, 5*b.o.runs, ours.page, peer.page)
	return append(rows, within("a page of 200 sandboxes after its key, and of `less`", s[0], s[1], 16*time.Millisecond)), nil
}

// within is compare with a goal of its own for ours; 0 is none.
func within(what string, ours, peer sample, goal time.Duration) row {
	r := compare(what, ours, peer, noGoal)
	if peer.err == nil && len(peer.times) == 0 {
		r.peer, r.ratio = "", ""
	}
	if ours.err == nil && goal > 0 {
		r.target = verdict("at most "+short(goal), ours.median() <= goal)
	}
	return r
}

// terminal is a program on a terminal of its own.
type terminal struct {
	cmd *exec.Cmd
	*os.File
	back bool // the next page is the one before
}

// screen starts a program and waits until its terminal shows text.
func (b *bench) screen(c command, text string) (*terminal, error) {
	cmd := exec.Command(c.argv[0], c.argv[1:]...)
	cmd.Env, cmd.Dir = append(c.env, "TERM=xterm-256color"), c.dir
	file, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 60, Cols: 200})
	if err != nil {
		return nil, err
	}
	t := &terminal{cmd: cmd, File: file}
	raw, err := file.SyscallConn() // the library leaves it blocking: no deadline would hold
	if err == nil {
		err = errors.Join(raw.Control(func(fd uintptr) { err = syscall.SetNonblock(int(fd), true) }), err)
	}
	if err != nil {
		t.close()
		return nil, err
	}
	var shown []byte
	for part := make([]byte, 64<<10); !bytes.Contains(shown, []byte(text)); {
		n, err := file.Read(part)
		shown = append(shown, part[:n]...)
		if err != nil {
			t.close()
			return nil, fmt.Errorf("%s ended before it showed %q", c.argv[0], text)
		}
	}
	return t, nil
}

func (t *terminal) close() {
	_ = t.cmd.Process.Kill()
	_ = t.cmd.Wait()
	t.Close()
}

// firstFrame is a contestant: until a program shows text.
func (b *bench) firstFrame(text string, c command) contestant {
	return func(context.Context) (time.Duration, error) {
		start := time.Now()
		t, err := b.screen(c, text)
		if err != nil {
			return 0, err
		}
		took := time.Since(start)
		t.close()
		return took, nil
	}
}

// page is a contestant: from a key until what it changes is there.
func (t *terminal) page(context.Context) (time.Duration, error) {
	time.Sleep(50 * time.Millisecond) // what is still drawn
	_ = t.SetReadDeadline(time.Now().Add(time.Millisecond))
	for part := make([]byte, 64<<10); ; {
		if n, err := t.Read(part); n == 0 || err != nil {
			break
		}
	}
	_ = t.SetReadDeadline(time.Time{})
	key := "\x1b[6~"
	if t.back {
		key = "\x1b[5~"
	}
	t.back = !t.back
	start := time.Now()
	if _, err := io.WriteString(t, key); err != nil {
		return 0, err
	}
	_, err := t.Read(make([]byte, 64<<10))
	return time.Since(start), err
}
