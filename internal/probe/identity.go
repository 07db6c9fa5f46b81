package probe

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// identityWalls are about who the agent is.
func identityWalls(opts Options) []wall {
	status := ownStatus()
	field := func(name, key, want string) wall {
		return wall{"identity", name, func(context.Context) error {
			return must(status[key] == want, "%s is %s", key, status[key])
		}}
	}
	const none = "0000000000000000"
	return []wall{
		{"identity", "being user 0", func(context.Context) error {
			return must(os.Getuid() != 0 && os.Geteuid() != 0 && os.Getgid() != 0, "the user is %d, the group %d", os.Getuid(), os.Getgid())
		}},
		{"identity", "becoming user 0", func(context.Context) error { return unix.Setresuid(0, 0, 0) }},
		field("holding capabilities", "CapEff", none),
		field("permitted capabilities", "CapPrm", none),
		field("inheriting capabilities", "CapInh", none),
		field("ambient capabilities", "CapAmb", none),
		field("gaining capabilities (bounding set)", "CapBnd", none),
		field("gaining privileges by execve", "NoNewPrivs", "1"),
		field("running without a seccomp filter", "Seccomp", "2"),
		{"identity", "supplementary groups", func(context.Context) error {
			groups, err := os.Getgroups()
			if err != nil {
				return err
			}
			for _, group := range groups {
				if group != os.Getgid() {
					return nil
				}
			}
			return must(true, "none")
		}},
		{"identity", "inherited descriptors", inheritedDescriptors},
		{"identity", "the host's environment", func(context.Context) error {
			// Variables that the sandbox is not given come from the host.
			for _, entry := range os.Environ() {
				name, _, _ := strings.Cut(entry, "=")
				if !slices.Contains(opts.Environment, name) && !slices.Contains(sessionVariables, name) {
					return through(name + " is set")
				}
			}
			return fmt.Errorf("%d variables, all ours", len(os.Environ()))
		}},
	}
}

// ownStatus is /proc/self/status as a table (proc_pid_status(5)).
func ownStatus() map[string]string {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	fields := make(map[string]string)
	for _, line := range strings.Split(string(text), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.TrimSpace(value)
		}
	}
	return fields
}

// inheritedDescriptors looks for open files that this process did not open:
// anything beyond the standard streams that is a folder, a device or a socket.
func inheritedDescriptors(context.Context) error {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		fd, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) != nil {
			continue // ReadDir's own, closed by now
		}
		target, _ := os.Readlink(filepath.Join("/proc/self/fd", entry.Name()))
		if fd > 2 && strings.HasPrefix(target, "anon_inode:") {
			continue // this program's own poller
		}
		kind := stat.Mode & unix.S_IFMT
		standard := fd <= 2 && (kind == unix.S_IFIFO || kind == unix.S_IFCHR)
		if !standard {
			return nil
		}
	}
	return must(true, "none but the standard streams")
}

// sessionVariables are those that a command can be given beside its sandbox's.
var sessionVariables = strings.Fields(`COLORTERM LC_ALL TZ PWD TMPDIR TMUX_TMPDIR XDG_RUNTIME_DIR SSL_CERT_DIR NODE_USE_ENV_PROXY
	GIT_AUTHOR_NAME GIT_AUTHOR_EMAIL GIT_COMMITTER_NAME GIT_COMMITTER_EMAIL`)
