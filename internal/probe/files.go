package probe

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"forage"
)

// hostPlaces hold what must not be visible inside, for any caller.
var hostPlaces = []string{
	"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/ssh", "/etc/ssl/private", "/etc/machine-id",
	"/root/.ssh", "/root/.profile", "/root/.bashrc", "/boot", "/srv", "/mnt", "/media", "/var/log", "/var/run/docker.sock", "/run/docker.sock", "/run/dbus", "/run/user",
	"/run/systemd", "/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/sda", "/dev/vda",
}

// fileWalls are about the file system.
func fileWalls(opts Options) []wall {
	walls := []wall{
		{"files", "seeing the host's files", hostFiles},
		{"files", "seeing homes other than the agent's", otherHomes},
		{"files", "mounts with setuid programs", func(context.Context) error { return everyMount("nosuid") }},
		{"files", "mounts with devices", func(context.Context) error { return everyMount("nodev") }},
		{"files", "making a device", func(context.Context) error {
			return unix.Mknod("/tmp/.probe-device", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 1)))
		}},
		{"files", "making a setuid file", func(context.Context) error {
			path := "/tmp/.probe-setuid"
			if err := os.WriteFile(path, nil, 0o700); err != nil {
				return err
			}
			defer os.Remove(path)
			return unix.Chmod(path, 0o4755)
		}},
		creating("/usr"), creating("/etc"), creating("/"),
	}
	if !opts.NestedNamespaces { // a sandbox that may mount has no file rules of Landlock's
		walls = append(walls,
			wall{"files", "planting a FIFO in the workspace", func(context.Context) error {
				return planted(unix.S_IFIFO)
			}},
			wall{"files", "planting a socket in the workspace", func(context.Context) error {
				return planted(unix.S_IFSOCK)
			}})
	}
	return walls
}

// creating is a folder in which nothing can be made.
func creating(dir string) wall {
	return wall{"files", "writing in " + dir, func(context.Context) error {
		path := filepath.Join(dir, ".probe")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			return errors.Unwrap(err)
		}
		os.Remove(path)
		return nil
	}}
}

func planted(kind uint32) error {
	path := filepath.Join(forage.WorkspacePath, ".probe-planted")
	if err := unix.Mknod(path, kind|0o600, 0); err != nil {
		return err
	}
	os.Remove(path)
	return nil
}

func hostFiles(context.Context) error {
	for _, path := range hostPlaces {
		if file, err := os.Open(path); err == nil {
			file.Close()
			return through(path + " is there")
		}
	}
	return fmt.Errorf("%d places tried, none is there", len(hostPlaces))
}

func otherHomes(context.Context) error {
	entries, err := os.ReadDir("/home")
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := filepath.Join("/home", entry.Name())
		if path == forage.HomePath {
			continue
		}
		// A host tool's own folder may be shown at its own path: then the way to
		// it is there, and nothing beside it.
		if files, err := os.ReadDir(filepath.Join(path, ".ssh")); err == nil && len(files) > 0 {
			return nil
		}
	}
	return must(true, "none")
}

// everyMount says whether every mount has the flag. The devices of /dev are
// bound one by one and are the only ones that may be.
func everyMount(flag string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	for _, line := range lines {
		fields := strings.Fields(line) // proc_pid_mountinfo(5)
		if len(fields) < 6 {
			continue
		}
		null := fields[3] == "/null" && strings.HasPrefix(fields[4], "/proc/") // a container's mask
		device := flag == "nodev" && (null || strings.HasPrefix(fields[4], "/dev/"))
		if !device && !strings.Contains(","+fields[5]+",", ","+flag+",") {
			return nil
		}
	}
	return fmt.Errorf("all %d mounts are %s", len(lines), flag)
}
