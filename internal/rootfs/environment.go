package rootfs

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"forage"
)

// systemPath is the PATH of every root filesystem that doesn't say its own.
const systemPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// Variables are the names of what Environment and the caller's tools can set.
func Variables() []string {
	return slices.AppendSeq(ToolVariables(), maps.Keys(Environment("", forage.Identity{}, "", nil, BundlePath)))
}

// Environment is what every sandbox begins with. tools are folders to look for
// commands in first; bundle is the path inside of a PEM file with the roots to trust:
// BundlePath where TrustFiles puts one, or "" for whatever the root filesystem trusts.
func Environment(name string, who forage.Identity, shell string, tools []string, bundle string) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(forage.ProxyPort)
	// What is installed inside comes before the system's, and after the caller's own.
	own, system := []string{who.Home + "/.local/bin", who.Home + "/go/bin", who.Home + "/.cargo/bin"}, strings.Split(systemPath, ":")
	at := slices.IndexFunc(tools, func(dir string) bool { return slices.Contains(system, dir) })
	if at < 0 {
		at = len(tools)
	}
	path := slices.Concat([]string{forage.BrowsersPath}, tools[:at], own, tools[at:], slices.DeleteFunc(system, func(dir string) bool { return slices.Contains(tools, dir) }))
	if shell == "/run/current-system/sw/bin/bash" { // NixOS has nothing in /usr/bin
		path = append(path, "/run/current-system/sw/bin")
	}
	env := map[string]string{
		"PATH": strings.Join(path, ":"), "HOME": who.Home, "USER": who.User, "LOGNAME": who.User,
		"SHELL": shell, "TERM": "xterm-256color", "LANG": "C.UTF-8",
		"FORAGE_SANDBOX": name, "AGENT_SANDBOX": "1",
		"GIT_CONFIG_SYSTEM": "/etc/gitconfig", // a git that isn't the distribution's would look elsewhere
		"BROWSER":           forage.BrowsersPath + "/" + forage.Browsers()[0],
		// pip has no system to break: it can't write to it, and installs into the home instead.
		"PIP_BREAK_SYSTEM_PACKAGES": "1",
		"NPM_CONFIG_PREFIX":         who.Home + "/.local", // so does npm install --global
	}
	for variable, value := range map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": "localhost,127.0.0.1,::1",
	} {
		env[variable], env[strings.ToUpper(variable)] = value, value
	}
	maps.Copy(env, trustVariables(bundle))
	return env
}
