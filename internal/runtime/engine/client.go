package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/hostexec"
)

// Variables are what of the user's environment leads a client to its engine.
var Variables = []string{
	"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "DBUS_SESSION_BUS_ADDRESS",
	"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_CERT_PATH", "DOCKER_TLS_VERIFY",
	"CONTAINER_HOST", "CONTAINER_CONNECTION", "CONTAINERS_CONF", "CONTAINERS_STORAGE_CONF",
}

func environment() []string {
	env := []string{"LC_ALL=C.UTF-8", "PATH=/usr/local/bin:/usr/local/sbin:/usr/bin:/usr/sbin:/bin:/sbin"}
	for _, name := range Variables {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// patience is for what an engine does on a slow disk: to unpack, or to remove a container.
const patience = 2 * time.Minute

// client runs an engine's command line.
type client string

// run returns what the client prints, or why it failed and what to do about that.
func (c client) run(ctx context.Context, stdin []byte, args ...string) (string, error) {
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: append([]string{string(c)}, args...), Env: environment(), Stdin: stdin, Timeout: patience,
	})
	if err != nil {
		return "", c.explain(err, string(out.Stderr))
	}
	return strings.TrimSpace(string(out.Stdout)), nil
}

// complaint is something that an engine says, in lower case, and what the user can do.
type complaint struct {
	says, fix string
	kind      error
}

func (c client) complaints() []complaint {
	start := "start it (as root: systemctl start docker), or name another with DOCKER_HOST or `docker context use`"
	if c == Podman {
		start = "start what CONTAINER_HOST or the default connection of `podman system connection list` names, or unset it"
	}
	return []complaint{
		{"permission denied while trying to connect", "you may not use this engine: use podman or a rootless docker, or have root add you to the group docker, which gives root's rights", forage.ErrUnsupported},
		{"dial unix", start, forage.ErrUnsupported},
		{"cannot connect to the docker daemon", start, forage.ErrUnsupported},
		{"failed to connect to the docker api", start, forage.ErrUnsupported},
		{"unable to connect to podman", start, forage.ErrUnsupported},
		{"context not found", "`docker context ls` lists the contexts; DOCKER_CONTEXT or `docker context use` chooses one", forage.ErrUnsupported},
		{"bind source path does not exist", "an engine that doesn't see this file is not of this machine: choose another with DOCKER_HOST or `docker context use`", forage.ErrUnsupported},
		{"unknown flag", "update " + string(c) + ": it is too old", forage.ErrUnsupported},
		{"is already in use", "another container has this name: choose another name for the sandbox, or remove that container", forage.ErrRefused},
		{"no space left on device", "make room where " + string(c) + " keeps its containers", forage.ErrStart},
	}
}

// explain makes an error of what a client said, which is untrusted text.
func (c client) explain(err error, said string) error {
	if errors.Is(err, hostexec.ErrNoProgram) {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s: %w", c, err), "install "+string(c))
	}
	exit, fix := "", ""
	kind := forage.ErrStart
	for _, one := range c.complaints() {
		if strings.Contains(strings.ToLower(said), one.says) {
			kind, fix = one.kind, one.fix
			break
		}
	}
	if said = strings.TrimSpace(said); said == "" {
		exit = ": " + err.Error()
	}
	return forage.WithHint(forage.Errorf(kind, "%s: %s%s", c, lastLine(said), exit), fix)
}

// lastLine is where a client says what went wrong; warnings come before.
func lastLine(text string) string {
	const most = 1000
	lines := strings.Split(text, "\n")
	for len(lines) > 1 && (lines[len(lines)-1] == "" || strings.HasPrefix(lines[len(lines)-1], "See '") || strings.HasPrefix(lines[len(lines)-1], "Run '")) {
		lines = lines[:len(lines)-1]
	}
	line := lines[len(lines)-1]
	return line[:min(most, len(line))]
}

// facts are what an engine says about itself.
type facts struct {
	version  string
	kernel   string
	rootless bool
	memory   bool // memoryMax can be enforced
	cpu      bool
}

// oldest are the versions from which on an engine has all that is asked of it: docker 20.10, podman 4.0.
var oldest = map[client][2]int{Docker: {20, 10}, Podman: {4, 0}}

// ask asks the engine for its facts, and refuses one that is too old or on another machine.
func (c client) ask(ctx context.Context) (facts, error) {
	text, err := c.run(ctx, nil, "info", "--format", "{{json .}}")
	if err != nil {
		return facts{}, err
	}
	f, err := c.parse(text)
	if err != nil {
		return f, err
	}
	var host unix.Utsname
	if err := unix.Uname(&host); err != nil {
		return f, err
	}
	return f, c.fit(f, unix.ByteSliceToString(host.Release[:]))
}

// fit refuses an engine that is too old, or that is not on this machine, whose kernel is named.
func (c client) fit(f facts, kernel string) error {
	var major, minor int
	fmt.Sscanf(f.version, "%d.%d", &major, &minor)
	if least := oldest[c]; major < least[0] || major == least[0] && minor < least[1] {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s %s is too old", c, f.version),
			fmt.Sprintf("%s %d.%d or later is needed", c, least[0], least[1]))
	}
	if f.kernel != kernel {
		return forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "this %s runs on another machine (Linux %s; this is %s), which can't see your files", c, f.kernel, kernel),
			"choose an engine of this machine: DOCKER_HOST, `docker context use default`, or another runtime")
	}
	return nil
}

func (c client) parse(text string) (f facts, err error) {
	if c == Podman {
		var info struct {
			Host struct {
				Kernel            string
				CgroupControllers []string
				Security          struct{ Rootless bool }
			}
			Version struct{ Version string }
		}
		if err := json.Unmarshal([]byte(text), &info); err != nil {
			return f, fmt.Errorf("reading what podman says of itself: %w", err)
		}
		f = facts{version: info.Version.Version, kernel: info.Host.Kernel, rootless: info.Host.Security.Rootless}
		for _, controller := range info.Host.CgroupControllers {
			f.memory = f.memory || controller == "memory"
			f.cpu = f.cpu || controller == "cpu"
		}
		return f, nil
	}
	var info struct {
		ServerVersion, KernelVersion string
		MemoryLimit, CPUCfsQuota     bool
		SecurityOptions              []string
		ServerErrors                 []string
	}
	if err := json.Unmarshal([]byte(text), &info); err != nil {
		return f, fmt.Errorf("reading what docker says of itself: %w", err)
	}
	if len(info.ServerErrors) > 0 {
		return f, c.explain(nil, strings.Join(info.ServerErrors, "\n"))
	}
	f = facts{version: info.ServerVersion, kernel: info.KernelVersion, memory: info.MemoryLimit, cpu: info.CPUCfsQuota}
	for _, option := range info.SecurityOptions {
		f.rootless = f.rootless || strings.HasPrefix(option, "name=rootless")
	}
	return f, nil
}

// ids are the container's own user and group, and "UID:GID" of the agent inside. In a rootless
// engine the container's root is the caller.
func (f facts) ids(who forage.Identity) (container, agent string) {
	pair := func(uid, gid int) string { return strconv.Itoa(uid) + ":" + strconv.Itoa(gid) }
	if f.rootless {
		return "0:0", pair(who.UID, who.GID)
	}
	return pair(who.HostUID, who.HostGID), pair(who.UID, who.GID)
}
