package engine

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/rootfs"
	"forage/internal/runtime/child"
	"forage/internal/unixsock"
)

// image is an empty image of ours: what is inside comes by mounts.
const image = "localhost/firefly-forage/empty:1"

// Labels of our containers.
const (
	labelName = "firefly-forage.sandbox" // a sandbox's name
	labelDir  = "firefly-forage.dir"     // the run-time folder that it belongs to
)

// profile is the engine's own filter. It refuses what neither the set-up nor an agent needs; the
// guest puts the sandbox's filter, which refuses far more, on all that it starts.
//
//go:embed profile.json
var profile []byte

// container is one for a sandbox, which is not started yet.
type container struct {
	client
	id      string
	stream  bool
	channel *net.UnixListener // nil with stream
	dir     string            // the sandbox's folder; a client runs there
	holder  *net.UnixConn     // the container's first process, once it has come
	pid     int               // its, on the host
	sources map[string]int    // what is bound, and its number
}

// sourcePath is where a bound source is in the container.
func sourcePath(n int) string { return "/forage/" + strconv.Itoa(n) }

// Place is child.Config.Place.
func (c *container) Place(source string) string {
	bound := boundAt(source)
	n, there := c.sources[bound]
	if !there {
		return "/forage/absent"
	}
	return sourcePath(n) + source[len(bound):]
}

// boundAt is what has to be bound for a source: all of /etc, since each bind takes an engine a
// millisecond. The agent sees what the guest shows of it.
func boundAt(source string) string {
	const etc = "/etc"
	if rootfs.Within(source, etc) {
		return etc
	}
	return source
}

// socket is where channel is.
func (c *container) socket() string { return filepath.Join(c.dir, "engine.sock") }

// sources are what of the host has to be there for the guest, and whether it is written to. Root
// hands mounts over; the program is all that its containers need.
func sources(spec forage.Spec, program string) (order []string, writable map[string]bool) {
	writable = make(map[string]bool)
	add := func(source string, write bool) {
		source = boundAt(source)
		if _, seen := writable[source]; !seen {
			order = append(order, source)
		}
		writable[source] = writable[source] || write
	}
	add(program, false)
	if os.Geteuid() == 0 {
		return order, writable
	}
	for _, m := range spec.Mounts {
		if _, err := os.Lstat(m.Source); err == nil { // child says what is missing
			add(m.Source, m.Writable)
		}
	}
	for _, dir := range spec.Rootfs.Lower {
		add(dir, false)
	}
	if spec.KeptHome != "" {
		add(spec.KeptHome, true)
	}
	return order, writable
}

// bind is the value of --mount.
func bind(source, target string, writable bool) string {
	fields := []string{"type=bind", "src=" + source, "dst=" + target}
	if !writable {
		fields = append(fields, "readonly")
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	w.Write(fields)
	w.Flush()
	return strings.TrimSuffix(b.String(), "\n")
}

// create makes the container of a sandbox. dir is the sandbox's folder.
func (r *Runtime) create(ctx context.Context, f facts, spec forage.Spec, dir, program string) (_ *container, err error) {
	c := &container{client: r.client, dir: dir, stream: r.options.Stream, sources: make(map[string]int)}
	user, agent := f.ids(spec.Identity)
	args := []string{
		"create", "--name", cmp.Or(r.options.Prefix, "forage-") + spec.Name, "--label", labelName + "=" + spec.Name, "--label", labelDir + "=" + r.dir,
		"--network", "none", "--read-only", "--user", user, "--cap-drop", "ALL", "--log-driver", "none", "--pull", "never",
		"--security-opt", "no-new-privileges", "--security-opt", "label=disable", "--security-opt", "apparmor=unconfined",
		"--env", child.IDsVariable + "=" + agent,
	}
	if f.rootless { // to map the container's root, who is the caller: user_namespaces(7)
		args = append(args, "--cap-add", "SETFCAP")
	}
	// The guest's own /proc is its to close; the kernel gives it one only where a whole one is.
	if r.client == Podman {
		args = append(args, "--security-opt", "unmask=ALL", "--read-only-tmpfs=false")
	} else {
		args = append(args, "--security-opt", "systempaths=unconfined")
		if !f.rootless {
			args = append(args, "--userns", "host")
		}
	}
	if l := spec.Limits; l.MemoryMax > 0 {
		bytes := strconv.FormatInt(l.MemoryMax, 10)
		args = append(args, "--memory", bytes, "--memory-swap", bytes)
	}
	if l := spec.Limits; l.CPUQuota > 0 {
		args = append(args, "--cpus", strconv.FormatFloat(float64(l.CPUQuota)/100, 'f', -1, 64))
	}
	order, writable := sources(spec, program)
	for n, source := range order {
		c.sources[source] = n
		args = append(args, "--mount", bind(source, sourcePath(n), writable[source]))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.close())
		}
	}()
	if c.stream {
		args = append(args, "--interactive", "--env", child.StreamVariable+"=1")
	} else {
		if c.channel, err = unixsock.Listen(c.socket()); err != nil {
			return nil, err
		}
		if err := os.Chmod(c.socket(), 0o666); err != nil { // in a folder that only the caller gets to
			return nil, err
		}
		args = append(args, "--mount", bind(c.socket(), child.ChannelPath, true))
	}
	filter := filepath.Join(dir, "seccomp.json")
	if err := os.WriteFile(filter, profile, 0o600); err != nil {
		return nil, fmt.Errorf("writing the engine's filter: %w", err)
	}
	defer os.Remove(filter)
	args = append(args, "--security-opt", "seccomp="+filter, image, sourcePath(0), child.ContainArgument)
	c.id, err = c.run(ctx, nil, args...)
	if err != nil && imageMissing(err) {
		if err := c.makeImage(ctx); err != nil {
			return nil, err
		}
		c.id, err = c.run(ctx, nil, args...)
	}
	if errors.Is(err, forage.ErrRefused) { // the name is in use, perhaps by what an engine that went away left
		if removed, _ := r.removeOurs(ctx, spec.Name); removed {
			c.id, err = c.run(ctx, nil, args...)
		}
	}
	return c, err
}

// imageMissing says whether an engine lacks our image, in the words of docker and podman.
func imageMissing(err error) bool {
	text := strings.ToLower(err.Error())
	return strings.Contains(text, "no such image") || strings.Contains(text, "image not known")
}

// makeImage has the engine make the image.
func (c client) makeImage(ctx context.Context) error {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "forage/", Typeflag: tar.TypeDir, Mode: 0o755}), w.Close())
	if err == nil {
		_, err = c.run(ctx, b.Bytes(), "import", "-", image)
	}
	if err != nil {
		return fmt.Errorf("making an empty image: %w", err)
	}
	return nil
}

// Command is child.Namespaces: the client that starts the container and ends with it.
func (c *container) Command(string, string, forage.Identity) (child.Command, error) {
	path, err := hostexec.Find(string(c.client))
	if err != nil {
		return child.Command{}, c.explain(err, "")
	}
	command := child.Command{
		Path: path, Argv: []string{string(c.client), "start", "--attach", c.id}, Env: environment(), Dir: c.dir, Client: true, Hand: c.hand,
	}
	if c.stream {
		command.Argv = []string{string(c.client), "start", "--attach", "--interactive", c.id}
		command.Hand = nil
	}
	return command, nil
}

// hand gives the first process that comes the guest's end of the channel; nobody comes after it.
func (c *container) hand(guest *os.File, ended <-chan struct{}) (pid int, err error) {
	if c.holder, c.pid, err = child.HandChannel(string(c.client), c.channel, guest, ended); err != nil {
		return 0, err
	}
	return c.pid, c.closeChannel()
}

func (c *container) closeChannel() error {
	if c.channel == nil {
		return nil
	}
	err := errors.Join(c.channel.Close(), os.Remove(c.socket()))
	c.channel = nil
	return err
}

// close removes the container, which ends what runs in it, and all that is there for it.
func (c *container) close() error {
	if c.holder != nil {
		c.holder.Close()
	}
	_ = os.Remove(filepath.Join(c.dir, "oom")) // which conmon(8) leaves where the client ran
	err := c.closeChannel()
	if c.id == "" {
		return err
	}
	ctx, cancel := deadline.Within(context.Background(), patience, string(c.client))
	defer cancel()
	return errors.Join(err, c.remove(ctx, c.id))
}

// remove removes containers. One that is gone already, or being removed, is no error.
func (c client) remove(ctx context.Context, ids ...string) error {
	_, err := c.run(ctx, nil, append([]string{"rm", "--force", "--volumes"}, ids...)...)
	if gone(err) {
		return nil
	}
	return err
}

func gone(err error) bool {
	return err != nil && (strings.Contains(strings.ToLower(err.Error()), "no such container") || strings.Contains(err.Error(), "is already in progress"))
}

// why says more about the end of a container that was not asked to end.
func (c *container) why(err error) error {
	if err == nil {
		return nil
	}
	ctx, cancel := deadline.Within(context.Background(), deadline.Answer, string(c.client))
	defer cancel()
	state, lost := c.run(ctx, nil, "container", "inspect", "--format", "{{.State.Status}}", c.id)
	if gone(lost) || state == "removing" {
		return forage.Errorf(forage.ErrStart, "its container was removed with %s: %w", c.client, err)
	}
	return err
}
