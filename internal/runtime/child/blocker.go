package child

import (
	"os"
	"strings"

	"forage"
	"forage/internal/runtime"
)

// blocker is something about a host that keeps ordinary users from making
// user namespaces or from doing something in them.
type blocker struct {
	name   string
	detail string // what was found
	fix    string // what the user can do
}

// hostFiles reads files of this host.
func hostFiles(path string) (string, bool) {
	text, err := os.ReadFile(path)
	return strings.TrimSpace(string(text)), err == nil
}

// findBlocker looks for the known ones, in the order in which the kernel
// would stumble over them. read returns a file's text and whether there is such a file.
func findBlocker(read func(path string) (string, bool)) (blocker, bool) {
	is := func(path, value string) bool {
		text, ok := read(path)
		return ok && text == value
	}
	_, nixos := read("/etc/NIXOS")
	switch {
	case is("/proc/sys/user/max_user_namespaces", "0"):
		return blocker{"max_user_namespaces", "user.max_user_namespaces is 0",
			sysctlFix(nixos, "user.max_user_namespaces", "31000")}, true
	case is("/proc/sys/kernel/unprivileged_userns_clone", "0"):
		fix := sysctlFix(nixos, "kernel.unprivileged_userns_clone", "1")
		if nixos {
			fix = "set security.unprivilegedUsernsClone = true; in the NixOS configuration"
		}
		return blocker{"unprivileged_userns_clone", "kernel.unprivileged_userns_clone is 0 (Debian's and hardened kernels)", fix}, true
	case is("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"):
		return blocker{"apparmor", "AppArmor restricts user namespaces of ordinary users (Ubuntu 23.10 and later)", apparmorFix}, true
	}
	if _, ok := read("/proc/sys/user/max_user_namespaces"); !ok {
		return blocker{"no user namespaces", "the kernel was built without CONFIG_USER_NS", "use a kernel that has user namespaces"}, true
	}
	if status, ok := read("/proc/self/status"); ok && strings.Contains(status, "\nSeccomp:\t2") {
		return blocker{"seccomp", "a system call filter is on this process already: it probably runs in a container, whose filter refuses namespaces",
			"run Forage on the host, or start the container with a seccomp profile that allows user namespaces (docker: --security-opt seccomp=unconfined --security-opt systempaths=unconfined)"}, true
	}
	if text, ok := read("/sys/fs/selinux/enforce"); ok && text == "1" {
		return blocker{"selinux", "SELinux is enforcing and may refuse user_namespace { create }",
			"`ausearch -m avc -ts recent` names the denial; allow user_namespace { create } for your domain"}, true
	}
	return blocker{}, false
}

// Detect says what keeps a host from making namespaces, after a quick look: what is certain, and
// not what a policy may allow after all.
func Detect(env runtime.Environment) error {
	if env.UID == 0 {
		return nil
	}
	read := func(path string) (string, bool) {
		text, err := env.ReadFile(path)
		return strings.TrimSpace(string(text)), err == nil
	}
	found, blocked := findBlocker(read)
	profile, _ := read("/proc/self/attr/current")
	switch {
	case !blocked, found.name == "seccomp", found.name == "selinux", found.name == "apparmor" && profile != "unconfined":
		return nil
	}
	return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "%s", found.detail), found.fix)
}

// apparmorFix gives the program a profile of its own, as Ubuntu's release notes for 23.10 describe.
const apparmorFix = `as root: printf 'abi <abi/4.0>,\nprofile forage-ctl "%s" flags=(unconfined) {\n  userns,\n}\n' "$(command -v forage-ctl)" > /etc/apparmor.d/forage-ctl && apparmor_parser -r /etc/apparmor.d/forage-ctl`

func sysctlFix(nixos bool, name, value string) string {
	if nixos {
		return `set boot.kernel.sysctl."` + name + `" = ` + value + `; in the NixOS configuration`
	}
	return "as root: echo " + name + "=" + value + " > /etc/sysctl.d/60-forage.conf && sysctl --system"
}
