package oci

import (
	"encoding/json"
	"os"

	"forage"
	"forage/internal/netns"
	"forage/internal/runtime/child"
)

// The parts of config.json that are used: the OCI Runtime Specification, config.md and
// config-linux.md.
type (
	bundle struct {
		Version  string  `json:"ociVersion"`
		Root     root    `json:"root"`
		Hostname string  `json:"hostname"`
		Process  process `json:"process"`
		Mounts   []mount `json:"mounts"`
		Linux    linux   `json:"linux"`
	}
	root struct {
		Path     string `json:"path"`
		Readonly bool   `json:"readonly,omitempty"`
	}
	process struct {
		User            user                `json:"user"`
		Args            []string            `json:"args"`
		Env             []string            `json:"env"`
		Cwd             string              `json:"cwd"`
		Capabilities    map[string][]string `json:"capabilities"`
		NoNewPrivileges bool                `json:"noNewPrivileges"`
	}
	user struct {
		UID int `json:"uid"`
		GID int `json:"gid"`
	}
	mount struct {
		Destination string   `json:"destination"`
		Type        string   `json:"type"`
		Source      string   `json:"source"`
		Options     []string `json:"options,omitempty"`
	}
	linux struct {
		Namespaces    []namespace       `json:"namespaces"`
		Sysctl        map[string]string `json:"sysctl,omitempty"`
		MaskedPaths   []string          `json:"maskedPaths"`
		ReadonlyPaths []string          `json:"readonlyPaths"`
	}
	namespace struct {
		Type string `json:"type"`
	}
)

// Bundle is the config.json of a sandbox. Its mounts are those that a kernel has to make; what the
// spec shows is in the root already. The guest installs the system call filter itself: it is the
// one of all runtimes, and no second one has to be kept like it.
func (c container) Bundle(spec forage.Spec, argument string) ([]byte, error) {
	b := bundle{
		Version: "1.0.2", Root: root{Path: child.RootPath}, Hostname: spec.Name,
		Process: process{
			Args: []string{child.Program, argument}, Env: child.GuestEnv(), Cwd: "/", NoNewPrivileges: true,
			Capabilities: map[string][]string{"bounding": c.caps(), "effective": c.caps(), "permitted": c.caps()},
		},
		Mounts: []mount{{"/proc", "proc", "proc", []string{"nosuid", "nodev", "noexec"}}},
		Linux:  linux{MaskedPaths: []string{}, ReadonlyPaths: []string{}},
	}
	for _, kind := range []string{"mount", "pid", "network", "ipc", "uts"} {
		b.Linux.Namespaces = append(b.Linux.Namespaces, namespace{kind})
	}
	if c.ownKernel() {
		b.Root.Readonly = spec.Rootfs.Kind == forage.RootfsHost
		b.Mounts = append(b.Mounts, shown(spec)...)
		return json.Marshal(b)
	}
	b.Mounts = append(b.Mounts, mount{"/dev", "bind", child.RootPath + "/dev", []string{"rbind", "ro", "nosuid", "nodev", "noexec"}})
	b.Linux.Sysctl = netns.Sysctls()
	b.Linux.MaskedPaths = child.MaskedProc()
	b.Linux.ReadonlyPaths = []string{"/proc/sys"}
	return json.Marshal(b)
}

// shown are the mounts in the root that gVisor has to know of, which sees one file system there. What
// others write to must not be cached. Where a folder is empty it would have one of its own, which
// diskMax would not bound.
func shown(spec forage.Spec) []mount {
	list := []mount{}
	add := func(target string, writable bool) {
		options := []string{"rbind", "nosuid", "nodev", "ro"}
		if writable {
			options[3] = "rw"
		}
		list = append(list, mount{target, "bind", child.RootPath + target, options})
	}
	for _, area := range []string{"/tmp", "/var/tmp", "/dev/shm", "/run", spec.Identity.Home} {
		add(area, true)
	}
	for _, m := range spec.Mounts {
		if _, err := os.Lstat(m.Source); !m.System && (err == nil || !m.Optional) {
			add(m.Target, m.Writable || m.Layered)
		}
	}
	return list
}
