package runtime

import (
	"fmt"
	"slices"
	"strings"

	"forage"
)

// Row is one thing that a runtime can enforce, or can't: a row of `forage-ctl runtimes`.
type Row struct {
	Name  string // as in the JSON of Capabilities, and as findings of Check name it
	What  string // in words
	Can   bool
	Walls []string // the walls of package probe that stand only where it is enforced
}

// Rows are all of them, in the order in which they are shown.
func (c Capabilities) Rows() []Row {
	return []Row{
		{"ownRoot", "a root of its own", len(c.Rootfs) > 0, []string{"seeing the host's files", "writing in /usr", "writing in /etc", "writing in /"}},
		{"transparentProxy", "all TCP goes through the policy", c.TransparentProxy, []string{
			"having an interface but lo", "TCP to 192.0.2.1:443", "TCP to [2001:db8::1]:443", "TCP to 169.254.169.254:80"}},
		{"dns", "all DNS goes through the policy", c.DNS, []string{"resolving a name", "UDP to 192.0.2.1:443"}},
		{"seccomp", "a system call filter", c.Seccomp, []string{"running without a seccomp filter"}},
		{"userMapping", "files made inside are the caller's", c.UserMapping, []string{"a workspace of another user"}},
		{"tasksMax", "tasksMax", c.TasksMax, []string{"more tasks than tasksMax"}},
		{"memoryMax", "memoryMax", c.MemoryMax, []string{"more memory than memoryMax"}},
		{"cpuQuota", "cpuQuota", c.CPUQuota, []string{"more processor time than cpuQuota"}},
		{"diskMax", "diskMax", c.DiskMax, []string{"more in /tmp than diskMax"}},
		{"protectedPaths", "protected files in workspaces", c.ProtectedPaths, []string{"changing a protected file"}},
		{"socketMasks", "closed sockets in mounted folders", c.SocketMasks, []string{"a host's socket in a mounted folder"}},
		{"files", "generated files", c.Files, nil},
		{"links", "links", c.Links, nil},
		{"layeredMounts", "layers over the host's caches", c.LayeredMounts, nil},
		{"volumes", "volumes", c.Volumes, nil},
		{"liveNetwork", "network changes while it runs", c.LiveNetwork, nil},
		{"gpu", "GPUs", c.GPU, nil},
		{"nestedNamespaces", "nested namespaces", c.NestedNamespaces, nil},
	}
}

// Has says whether the runtime can enforce the row of that name.
func (c Capabilities) Has(name string) bool {
	return slices.ContainsFunc(c.Rows(), func(r Row) bool { return r.Name == name && r.Can })
}

// Active says whether the runtime enforces the row on a host of which Check found that.
func (r Row) Active(findings []Finding) bool {
	return r.Can && !slices.ContainsFunc(findings, func(f Finding) bool { return f.Name == r.Name && !f.OK })
}

// Refuses reports, with ErrUnsupported, the first thing that spec asks for and that the runtime can
// enforce on no host.
func (i Info) Refuses(spec forage.Spec) error {
	if !slices.Contains(i.Capabilities.Rootfs, spec.Rootfs.Kind) {
		return i.refusal(fmt.Sprintf("a root filesystem of kind %q", spec.Rootfs.Kind), "ownRoot")
	}
	layered := slices.ContainsFunc(spec.Mounts, func(m forage.Mount) bool { return m.Layered })
	asked := map[string]bool{
		"tasksMax": spec.Limits.TasksMax > 0, "memoryMax": spec.Limits.MemoryMax > 0, "cpuQuota": spec.Limits.CPUQuota > 0,
		"diskMax": spec.Limits.DiskMax > 0, "nestedNamespaces": spec.Security.NestedNamespaces, "files": len(spec.Files) > 0,
		"links": len(spec.Links) > 0, "layeredMounts": layered, "protectedPaths": len(spec.Protect) > 0, "socketMasks": len(spec.Mounts) > 0,
	}
	for _, row := range i.Capabilities.Rows() {
		if asked[row.Name] && !row.Can {
			return i.refusal(row.What, row.Name)
		}
	}
	return nil
}

func (i Info) refusal(what, row string) error {
	return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "runtime %s can't enforce %s (%s)", i.Name, what, row), "`forage-ctl runtimes` shows what each can")
}

// Kinds are the kinds of root filesystem in words.
func (c Capabilities) Kinds() string {
	var kinds []string
	for _, kind := range c.Rootfs {
		kinds = append(kinds, string(kind))
	}
	return strings.Join(kinds, " ")
}
