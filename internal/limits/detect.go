package limits

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// Detect finds what can enforce l in env, in this order: the systemd manager,
// where systemd is the init; a delegated or otherwise writable cgroup v2 folder; cgroup
// v1. The trace says what was looked at and why it would not do.
func Detect(env Environment, l forage.Limits) (Enforcer, []string, error) {
	d := detection{env: env, want: wanted(l)}
	hierarchies, err := env.hierarchies()
	if err != nil {
		d.note("cgroups: %v", err)
	}
	for _, find := range []func([]hierarchy) Enforcer{d.systemd, d.unified, d.legacy} {
		if enforcer := find(hierarchies); enforcer != nil {
			d.note("taken: %v", enforcer)
			return enforcer, d.trace, nil
		}
	}
	return nil, d.trace, d.unsupported()
}

// detection is one run of Detect.
type detection struct {
	env   Environment
	want  []string
	trace []string
	hint  string // what would help most, of what was found missing
}

func (d *detection) note(format string, args ...any) {
	d.trace = append(d.trace, fmt.Sprintf(format, args...))
}

// fix records what the user can do; the first one stays.
func (d *detection) fix(hint string) {
	d.hint = cmp.Or(d.hint, hint)
}

func (d *detection) unsupported() error {
	d.fix("run as root, or on a host with cgroup v2 and a systemd user session")
	return forage.WithHint(forage.Errorf(forage.ErrUnsupported,
		"this host can't enforce %s: %s", missing(d.want, nil), strings.Join(d.trace, "; ")), d.hint)
}

// booted reports whether systemd is the init: sd_booted(3).
func (d *detection) booted() bool {
	return slices.Contains(d.env.fields("/proc/1/comm"), "systemd")
}

// unifiedMount is where cgroup v2 is mounted.
func unifiedMount(list []hierarchy) (hierarchy, bool) {
	i := slices.IndexFunc(list, func(h hierarchy) bool { return h.unified })
	if i < 0 {
		return hierarchy{}, false
	}
	return list[i], true
}

const delegateHint = "as root: mkdir -p /etc/systemd/system/user@.service.d && " +
	`printf '[Service]\nDelegate=cpu memory pids\n' > /etc/systemd/system/user@.service.d/forage.conf && ` +
	"systemctl daemon-reload; then log out and in again"

// systemd asks the manager that is responsible for the caller. Its tree is its
// own: it would take controllers away from a folder that it does not know.
func (d *detection) systemd(list []hierarchy) Enforcer {
	h, ok := unifiedMount(list)
	if !ok || !d.booted() {
		d.note("systemd: not the init of a cgroup v2 host")
		return nil
	}
	socket := managerSocket(d.env)
	m, err := d.env.Manager(socket)
	if err != nil {
		d.note("systemd: %v", err)
		if d.env.UID != 0 {
			d.fix("log in directly (ssh or a console, not su or sudo), so that there is a systemd user session; or once: loginctl enable-linger")
		}
		return nil
	}
	defer m.Close()
	group, err := m.ControlGroup()
	if err != nil {
		d.note("systemd: %v", err)
		return nil
	}
	if lacks := missing(d.want, d.env.fields(filepath.Join(h.mount, group, "cgroup.controllers"))); lacks != "" {
		d.note("systemd: its manager has no controller for %s", lacks)
		if d.env.UID != 0 {
			d.fix(delegateHint)
		}
		return nil
	}
	return systemd{env: d.env, socket: socket, mount: h.mount}
}

// unified looks for a folder of cgroup v2, among the caller's own and those above it,
// in which groups can be made.
func (d *detection) unified(list []hierarchy) Enforcer {
	h, ok := unifiedMount(list)
	if !ok {
		d.note("cgroup v2: not mounted")
		return nil
	}
	booted := d.booted()
	for _, dir := range ancestors(h.own, h.mount) {
		if why := d.unusable(dir, h.mount, booted); why != "" {
			d.note("cgroup v2: %s: %s", dir, why)
			continue
		}
		return unified{parent: dir}
	}
	return nil
}

// unusable says why groups can't be made in dir.
func (d *detection) unusable(dir, mount string, booted bool) string {
	if lacks := missing(d.want, d.env.fields(dir+"/cgroup.controllers")); lacks != "" {
		return fmt.Sprintf("no controller for %s", lacks)
	}
	if !d.env.Writable(dir) || !d.env.Writable(dir+"/cgroup.procs") {
		return "not writable"
	}
	if booted && !slices.ContainsFunc(ancestors(dir, mount), d.env.Delegated) {
		return "systemd's own"
	}
	if missing(d.want, d.env.fields(dir+"/cgroup.subtree_control")) == "" {
		return ""
	}
	// "No internal processes": cgroups(7). The root of all is exempt, and has no cgroup.type.
	_, err := d.env.ReadFile(dir + "/cgroup.type")
	if err == nil && len(d.env.fields(dir+"/cgroup.procs")) > 0 {
		return "processes in it, so controllers can't be turned on"
	}
	if !d.env.Writable(dir + "/cgroup.subtree_control") {
		return "controllers can't be turned on"
	}
	return ""
}

// legacy takes cgroup v1, where every controller has its own tree.
func (d *detection) legacy(list []hierarchy) Enforcer {
	found := legacy{}
	for _, controller := range d.want {
		i := slices.IndexFunc(list, func(h hierarchy) bool { return slices.Contains(h.controllers, controller) })
		if i < 0 {
			d.note("cgroup v1: no %s hierarchy", controller)
			return nil
		}
		if !d.env.Writable(list[i].own) {
			d.note("cgroup v1: %s: not writable", list[i].own)
			d.fix("cgroup v1 can't be delegated: run as root, or start Linux with systemd.unified_cgroup_hierarchy=1")
			return nil
		}
		found[controller] = list[i].own
	}
	return found
}
