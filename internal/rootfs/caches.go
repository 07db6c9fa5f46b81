package rootfs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// cache is what a package manager keeps of what it has downloaded.
type cache struct {
	name string
	// find is the folder on the host by the caller's settings, or "".
	find func(Caller) string
	// parts are the folders in it that are shown, and none else: what lies beside
	// them can hold credentials (settings.xml, gradle.properties, credentials.toml).
	parts []string
	// inside is where the tool looks for it, below the home.
	inside string
}

var caches = []cache{
	{"go", goModules, []string{"."}, "go/pkg/mod"},
	{"cargo", under("CARGO_HOME", ".cargo"), []string{"registry"}, ".cargo"},
	{"npm", under("npm_config_cache,NPM_CONFIG_CACHE", ".npm"), []string{"_cacache"}, ".npm"},
	{"pip", under("PIP_CACHE_DIR", "XDG_CACHE_HOME/pip"), []string{"."}, ".cache/pip"},
	{"uv", under("UV_CACHE_DIR", "XDG_CACHE_HOME/uv"), []string{"."}, ".cache/uv"},
	{"maven", under("", ".m2"), []string{"repository", "wrapper/dists"}, ".m2"},
	{"gradle", under("GRADLE_USER_HOME", ".gradle"), []string{"caches/modules-2", "wrapper/dists"}, ".gradle"},
}

// Caches are the caller's caches of those names, as mounts with a layer of the sandbox's own, below
// home inside. Found says what is shown, and what is not and why; a cache that the caller does not
// have is not mentioned.
func Caches(names []string, caller Caller, home string) (mounts []forage.Mount, found []Found) {
	for _, c := range caches {
		if !slices.Contains(names, c.name) {
			continue
		}
		dir := c.find(caller)
		if !filepath.IsAbs(dir) {
			continue
		}
		for _, part := range c.parts {
			source := filepath.Join(dir, part)
			real, err := filepath.EvalSymlinks(source)
			if info, statErr := os.Stat(real); err != nil || statErr != nil || !info.IsDir() {
				continue
			}
			about := Found{Name: c.name, Path: source}
			if about.Why = whyNotCache(source, real, caller); about.Why == "" {
				about.Shown = filepath.Join(home, c.inside, part)
				mounts = append(mounts, forage.Mount{Source: real, Target: about.Shown, Layered: true})
			}
			found = append(found, about)
		}
	}
	return mounts, found
}

// credentialFiles are where tools keep credentials or settings: a folder with one of them is more
// than a cache.
var credentialFiles = []string{
	".netrc", ".npmrc", ".pypirc", ".git-credentials", "auth.json", "credentials", "credentials.toml", "gradle.properties", "pip.conf",
	"settings-security.xml", "settings.xml",
}

// whyNotCache is why the folder at path, which is dir without links, is not shown as a cache; "" is
// no reason.
func whyNotCache(path, dir string, caller Caller) string {
	switch {
	case caller.hostile(path):
		return "sandboxes write to it"
	case tooWide(dir) || private(dir) || caller.Home != "" && Within(caller.Home, dir):
		return "it holds more than a cache"
	}
	for _, name := range credentialFiles {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			return "it holds " + name + ", which can have credentials"
		}
	}
	return ""
}

// under finds the folder that one of the caller's variables names, or the usual one: below the
// home, or below the caller's folder of caches (XDG Base Directory Specification).
func under(variables, usual string) func(Caller) string {
	return func(caller Caller) string {
		for name := range strings.SplitSeq(variables, ",") {
			if dir := caller.env(name); dir != "" {
				return dir
			}
		}
		below, xdg := strings.CutPrefix(usual, "XDG_CACHE_HOME/")
		if !xdg {
			return caller.inHome(usual)
		}
		if dir := caller.env("XDG_CACHE_HOME"); dir != "" {
			return filepath.Join(dir, below)
		}
		return caller.inHome(filepath.Join(".cache", below))
	}
}

// goModules is `go env GOMODCACHE`, without starting go: the variables, those of its own file, the
// default.
func goModules(caller Caller) string {
	file := caller.env("GOENV")
	if file == "" {
		config := caller.env("XDG_CONFIG_HOME")
		if config == "" {
			config = caller.inHome(".config")
		}
		file = filepath.Join(config, "go/env")
	}
	var text []byte
	if filepath.IsAbs(file) { // GOENV=off; and what is in the current folder is the project's
		text, _ = os.ReadFile(file) // most have none
	}
	setting := func(name string) string {
		if value := caller.env(name); value != "" {
			return value
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
				return value
			}
		}
		return ""
	}
	if dir := setting("GOMODCACHE"); dir != "" {
		return dir
	}
	if list := filepath.SplitList(setting("GOPATH")); len(list) > 0 {
		return filepath.Join(list[0], "pkg/mod")
	}
	return caller.inHome("go/pkg/mod")
}
