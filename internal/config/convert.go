package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"forage/internal/policy"
)

// converter turns raw values into typed ones over what c holds already.
type converter struct {
	*problems
	config *Config
	root   *node
	home   string
}

// convert applies what the merged files say to c.
func convert(c *Config, root *node, home string, p *problems) {
	v := converter{p, c, root, home}
	raw := &c.raw
	v.general(raw)
	v.network(raw.Network)
	v.hostSets(raw.HostSets)
	for name, secret := range raw.Secrets {
		v.secret(name, secret)
	}
	for name, template := range raw.Templates {
		v.template(name, template)
	}
	v.boundSecrets()
	v.notify(raw.Notify)
	v.proxy(raw.Proxy)
	if _, ok := c.Templates[c.DefaultTemplate]; !ok {
		known := slices.Sorted(maps.Keys(c.Templates))
		v.wrong([]any{"defaultTemplate"}, "no template is called %.80q%s", c.DefaultTemplate, didYouMean(c.DefaultTemplate, known))
	}
}

// wrong adds a problem with the value at path.
func (v converter) wrong(path []any, format string, args ...any) {
	v.add(v.root.at(path...).pos, pathText(path)+": "+format, args...)
}

// check adds err, if it is one, as a problem with the value at path.
func (v converter) check(err error, path ...any) bool {
	if err != nil {
		v.wrong(path, "%v", err)
	}
	return err == nil
}

// path makes a path in a file absolute, relative to that file's folder.
func (v converter) path(text string, at ...any) string {
	base := filepath.Dir(v.root.at(at...).pos.file)
	path, err := resolvePath(text, base, v.home)
	v.check(err, at...)
	v.means(path, at...)
	return path
}

// means puts what a text stands for in its place, for show: a path is relative to its own file.
func (v converter) means(text string, at ...any) {
	if n := v.root.at(at...); n.kind == kindString {
		n.text = text
	}
}

func (v converter) general(raw *rawFile) {
	c := v.config
	if raw.User != nil {
		c.User = *raw.User
		if !isUserName(c.User) {
			v.wrong([]any{"user"}, "%.80q is not a user's name", c.User)
		}
	}
	if raw.AuthorizedKeys != nil {
		c.AuthorizedKeys = raw.AuthorizedKeys
		for i, line := range raw.AuthorizedKeys {
			v.check(checkKey(line), "authorizedKeys", i)
		}
	}
	if raw.PortRange != nil {
		v.ports(raw.PortRange)
	}
	if raw.SSHListen != nil {
		c.SSHListen = *raw.SSHListen
		v.check(checkListen(c.SSHListen), "sshListen")
	}
	c.Terminal = raw.Terminal
	v.each(raw.Terminal, checkTerminal, []any{"terminal"})
	setText(&c.DefaultTemplate, raw.DefaultTemplate)
	if raw.ContainerPrefix != nil {
		c.ContainerPrefix = *raw.ContainerPrefix
		if !isPrefix(c.ContainerPrefix) {
			v.wrong([]any{"containerPrefix"}, "%.80q: expected up to 32 of a-z, 0-9 and -", c.ContainerPrefix)
		}
	}
}

func checkTerminal(what string) error {
	if what != "clipboard" && what != "title" {
		return fmt.Errorf("%.80q: expected clipboard or title", what)
	}
	return nil
}

func (v converter) ports(raw *rawPortRange) {
	r := &v.config.PortRange
	for _, end := range []struct {
		key string
		raw *int64
		to  *int
	}{{"from", raw.From, &r.From}, {"to", raw.To, &r.To}} {
		if end.raw == nil {
			continue
		}
		if *end.raw < 1 || *end.raw > 65535 {
			v.wrong([]any{"portRange", end.key}, "%d: expected a port, 1 to 65535", *end.raw)
			return
		}
		*end.to = int(*end.raw)
	}
	if r.From > r.To {
		v.wrong([]any{"portRange"}, "from (%d) is greater than to (%d)", r.From, r.To)
	}
}

func (v converter) network(raw *rawNetwork) {
	if raw == nil {
		return
	}
	facts := &v.config.Network
	for from, to := range raw.Resolve {
		from, to, err := parseResolve(from, to)
		if !v.check(err, "network", "resolve", from) {
			continue
		}
		if facts.Resolve == nil {
			facts.Resolve = map[string]string{}
		}
		facts.Resolve[from] = to
	}
	setList(&facts.PrivateHosts, raw.PrivateHosts)
	v.each(raw.PrivateHosts, checkPrivateHost, []any{"network", "privateHosts"})
	if raw.UpstreamCA != nil {
		facts.UpstreamCA = v.path(*raw.UpstreamCA, "network", "upstreamCA")
	}
	if raw.UpstreamProxy != nil {
		facts.UpstreamProxy = *raw.UpstreamProxy
		v.check(checkProxy(facts.UpstreamProxy), "network", "upstreamProxy")
	}
}

func (v converter) notify(raw *rawNotify) {
	if raw == nil {
		return
	}
	n := &v.config.Notify
	n.Desktop, n.Bell = isTrue(raw.Desktop), isTrue(raw.Bell)
	setList(&n.Command, raw.Command)
	if raw.Command != nil && (len(raw.Command) == 0 || raw.Command[0] == "") {
		v.wrong([]any{"notify", "command"}, "expected a program and its arguments")
	}
}

func (v converter) hostSets(raw map[string][]string) {
	for name, hosts := range raw {
		v.check(checkSetName(name), "hostSets", name)
		for i, host := range hosts {
			if policy.IsSet(host) && host != "@"+name {
				v.wrong([]any{"hostSets", name, i}, "%q: a set holds hosts, and of sets itself alone, as @%s", host, name)
				continue
			}
			v.check(checkHost(host), "hostSets", name, i)
		}
	}
	v.config.HostSets = raw
}

// checkPrivateHost takes a name or a suffix, without a port.
func checkPrivateHost(text string) error {
	name := strings.TrimPrefix(text, "*.")
	if canonical, err := policy.Canonical(name); err != nil || canonical != name {
		return fmt.Errorf("%.80q: expected a name in lower case, or *.suffix, without a port", text)
	}
	return nil
}

func setText(to, from *string) {
	if from != nil {
		*to = *from
	}
}

func setBool(to, from *bool) {
	if from != nil {
		*to = *from
	}
}

func setList(to *[]string, from []string) {
	if from != nil {
		*to = slices.Clone(from)
	}
}
