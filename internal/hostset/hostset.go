// Package hostset finds the hosts of package registries. It asks the user's own tools, or reads
// their configuration. So it finds a company's mirror, and we name no registry. What it finds is
// data: it allows nothing. Credentials stay where they are. It never reads a project's files: tools
// are asked in the home folder.
package hostset

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/policy"
	"forage/internal/provider"
)

// Set is what was found out about one set.
type Set struct {
	// Hosts are its hosts with their ports, as they are allowed. The first is where packages are
	// published to.
	Hosts []string
	// Env and Files make the tools inside use the same registry. They hold no credentials.
	Env   map[string]string
	Files []forage.File
	// Notes are what could not be found out.
	Notes []string
}

// Caller is whose tools are asked.
type Caller struct {
	Home   string
	Getenv func(string) (string, bool)
	Path   []string // the folders of PATH
	// Trust says whether no sandbox can change a folder or a program; others are not asked. Nil
	// asks no tool.
	Trust func(path string) bool
	// Get fetches a URL from the host, as the user's tools would; nil fetches nothing.
	Get func(ctx context.Context, url string) ([]byte, error)
}

// Find is Resolve where the configuration has sets of its own: they take the place of others, or
// add to the one that they name.
func Find(ctx context.Context, name string, configured map[string][]string, caller Caller) (Set, error) {
	own, named := configured[name]
	if named && !slices.Contains(own, "@"+name) {
		return Set{Hosts: own}, nil
	}
	set, err := Resolve(ctx, name, caller)
	for _, host := range own {
		if !policy.IsSet(host) {
			set.Hosts = append(set.Hosts, host)
		}
	}
	return set, err
}

// Resolve finds the set of that name, which has no "@". The error says what to write where the tool
// can't be asked.
func Resolve(ctx context.Context, name string, caller Caller) (Set, error) {
	if hosts := provider.SetHosts(name); hosts != nil {
		return Set{Hosts: hosts}, nil
	}
	ask, ok := tools[name]
	if !ok {
		return Set{}, forage.WithHint(
			forage.Errorf(forage.ErrUsage, "there is no set of hosts @%s", name),
			"there are @"+strings.Join(provider.SetNames(), " @")+", and those of [hostSets] in the configuration")
	}
	if caller.Trust == nil {
		return Set{}, notFound(name, errors.New("no tools are asked here"))
	}
	caller.Path = slices.DeleteFunc(slices.Clone(caller.Path), func(dir string) bool { return !caller.Trust(dir) })
	getenv := caller.Getenv
	caller.Getenv = func(name string) (string, bool) { // a tool's settings, or its versions, may be in the project
		value, ok := getenv(name)
		if filepath.IsAbs(value) && !caller.Trust(value) {
			return "", false
		}
		return value, ok
	}
	a := asker{ctx: ctx, caller: caller, set: Set{Env: map[string]string{}}}
	err := errors.New("your home folder is one that sandboxes write to")
	if caller.Home != "" && caller.Trust(caller.Home) {
		err = ask(&a)
	}
	if err == nil && len(a.set.Hosts) == 0 {
		err = errors.New("its configuration names no registry")
	}
	if err != nil {
		return Set{}, notFound(name, err)
	}
	return a.set, nil
}

func notFound(name string, err error) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUsage, "finding the hosts of @%s: %w", name, err),
		fmt.Sprintf("name them in your configuration, below [hostSets]: %s = [\"HOST\"]", name))
}

// tools ask for the sets of package registries.
var tools = map[string]func(*asker) error{
	"npm": (*asker).npm, "pypi": (*asker).pypi, "go": (*asker).golang, "cargo": (*asker).cargo,
	"maven": (*asker).maven, "rubygems": (*asker).gems, "debian": (*asker).apt, "nix": (*asker).nix,
}

// asker fills one set.
type asker struct {
	ctx    context.Context
	caller Caller
	set    Set
}

// passedOn are the caller's variables that say where tools and their configuration are.
var passedOn = []string{
	"USER", "LOGNAME", "XDG_CONFIG_HOME", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS",
	"npm_config_registry", "NPM_CONFIG_REGISTRY", "npm_config_userconfig", "NPM_CONFIG_USERCONFIG",
	"npm_config_globalconfig", "NPM_CONFIG_GLOBALCONFIG", "npm_config_prefix", "NPM_CONFIG_PREFIX", "NVM_DIR", "VOLTA_HOME",
	"PIP_CONFIG_FILE", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_TRUSTED_HOST", "PYENV_ROOT",
	"GOENV", "GOROOT", "GOPATH", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOFLAGS",
	"RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR", "NIX_CONFIG", "NIX_CONF_DIR", "GEM_HOME", "GEMRC",
}

func (a *asker) env(name string) string {
	value, _ := a.caller.Getenv(name)
	return value
}

// program is the caller's program of that name; "" is none.
func (a *asker) program(names ...string) string {
	for _, name := range names {
		for _, dir := range a.caller.Path {
			path := dir + "/" + name
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && a.caller.Trust(path) {
				return path
			}
		}
	}
	return ""
}

// run asks a tool, in the caller's home. Its output is there also where it failed.
func (a *asker) run(env []string, argv ...string) (hostexec.Output, error) {
	program := a.program(argv[0])
	if program == "" {
		return hostexec.Output{}, fmt.Errorf("%s is not on your PATH", argv[0])
	}
	all := []string{"HOME=" + a.caller.Home, "PATH=" + strings.Join(a.caller.Path, ":")}
	for _, name := range passedOn {
		if value, ok := a.caller.Getenv(name); ok {
			all = append(all, name+"="+value)
		}
	}
	return hostexec.Run(a.ctx, hostexec.Command{
		Argv: append([]string{program}, argv[1:]...), Env: append(all, env...), Dir: a.caller.Home,
	})
}

// add adds the host of a registry's URL, and returns the URL as it is used inside: without
// credentials.
func (a *asker) add(text string) (inside string, ok bool) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" {
		return "", false
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	name := strings.ToLower(u.Hostname())
	if addr, ok := policy.ParseAddr(name); name == "localhost" || ok && policy.Classify(addr) == policy.Loopback {
		name = policy.HostName // the host's own loopback has this name inside
		u.Host = net.JoinHostPort(name, port)
	}
	if host := net.JoinHostPort(name, port); !slices.Contains(a.set.Hosts, host) {
		a.set.Hosts = append(a.set.Hosts, host)
	}
	return u.String(), true
}

// addSaid adds the host of a URL on a page of the registry's index. The network says it, not the
// user. So it has to be the index's own host, or a name reached by HTTPS that leads to public
// addresses alone: without its port it may lead to no others (see policy.CheckAddr).
func (a *asker) addSaid(text, index string) {
	said, err := url.Parse(strings.TrimSpace(text))
	if err != nil {
		return
	}
	if of, err := url.Parse(index); err == nil && strings.EqualFold(said.Host, of.Host) && said.Scheme == of.Scheme {
		return // it is there already
	}
	name, addr, err := policy.ParseHost(said.Hostname())
	web := said.Scheme == "https" && (said.Port() == "" || said.Port() == "443")
	known := slices.Contains(a.set.Hosts, name) || slices.Contains(a.set.Hosts, name+":443")
	if err != nil || addr.IsValid() || !web || known || len(a.set.Hosts) >= maxSaid {
		return
	}
	if _, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: []string{name}}); err == nil { // no name of the host
		a.set.Hosts = append(a.set.Hosts, name)
	}
}

// maxSaid is how many hosts a set has at most when pages add some.
const maxSaid = 16

// addAll is add for each of texts; what is no URL is left out.
func (a *asker) addAll(texts []string) (inside []string) {
	for _, text := range texts {
		if one, ok := a.add(text); ok {
			inside = append(inside, one)
		}
	}
	return inside
}

// get fetches a URL; what hinders it is a note.
func (a *asker) get(url, what string) []byte {
	if a.caller.Get == nil {
		return nil
	}
	body, err := a.caller.Get(a.ctx, url)
	if err != nil {
		a.set.Notes = append(a.set.Notes, fmt.Sprintf("%s was not told: %v; `--allow-last` of `network` allows what is refused", what, err))
	}
	return body
}

func (a *asker) file(path string, lines ...string) {
	a.set.Files = append(a.set.Files, forage.File{Path: path, Content: []byte(strings.Join(lines, "\n") + "\n")})
}
