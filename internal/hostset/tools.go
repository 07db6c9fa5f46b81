package hostset

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// npm asks npm. Its registries may differ by scope. Inside, npm reads the file as its system-wide
// one; the project's goes before it.
func (a *asker) npm() error {
	out, err := a.run(nil, "npm", "config", "list", "--json")
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(out.Stdout, &config); err != nil {
		return errors.New("npm does not say what is configured")
	}
	registry, _ := config["registry"].(string)
	registry, ok := a.add(registry)
	if !ok {
		return errors.New("npm has no registry")
	}
	lines := []string{"registry=" + registry}
	for _, key := range slices.Sorted(maps.Keys(config)) {
		text, _ := config[key].(string)
		if strings.HasPrefix(key, "@") && strings.HasSuffix(key, ":registry") {
			if scoped, ok := a.add(text); ok {
				lines = append(lines, key+"="+scoped)
			}
		}
	}
	a.file("/etc/npmrc", lines...)
	a.set.Env["npm_config_globalconfig"] = "/etc/npmrc"
	a.set.Env["YARN_REGISTRY"], a.set.Env["YARN_NPM_REGISTRY_SERVER"] = registry, registry
	return nil
}

// golang asks go. Modules that GOPROXY leaves to "direct" come from forges, which have sets of
// their own.
func (a *asker) golang() error {
	out, err := a.run([]string{"GOTOOLCHAIN=local"}, "go", "env", "-json",
		"GOPROXY", "GOSUMDB", "GONOSUMDB", "GONOPROXY", "GOPRIVATE", "GOINSECURE", "GOFLAGS")
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out.Stdout, &a.set.Env); err != nil {
		return errors.New("go does not say what is configured")
	}
	maps.DeleteFunc(a.set.Env, func(_, value string) bool { return value == "" })
	proxies := a.set.Env["GOPROXY"]
	for _, proxy := range strings.FieldsFunc(proxies, func(c rune) bool { return c == ',' || c == '|' }) {
		if inside, ok := a.add(proxy); ok {
			proxies = strings.Replace(proxies, proxy, inside, 1)
		}
	}
	if len(a.set.Hosts) == 0 {
		return fmt.Errorf("GOPROXY is %q, which is no server; modules of forges need their sets, such as @github", proxies)
	}
	a.set.Env["GOPROXY"] = proxies
	switch sum := strings.Fields(a.set.Env["GOSUMDB"]); {
	case len(sum) > 1:
		inside, _ := a.add(sum[1])
		a.set.Env["GOSUMDB"] = sum[0] + " " + inside
	case len(sum) == 1 && sum[0] != "off":
		name, _, _ := strings.Cut(sum[0], "+")
		a.add("https://" + name)
	}
	return nil
}

// gems asks gem. Bundler asks for the versions at a host of its own, below the default source's.
func (a *asker) gems() error {
	out, err := a.run(nil, "gem", "sources")
	if err != nil {
		return err
	}
	lines := []string{":sources:"}
	for _, source := range a.addAll(strings.Fields(string(out.Stdout))) {
		lines = append(lines, "- "+source)
		if u, err := url.Parse(source); err == nil {
			a.add(u.Scheme + "://index." + u.Host)
		}
	}
	a.file("/etc/gemrc", lines...)
	return nil
}

// apt asks apt: its sources can have many forms. Nothing is configured inside, where no user is
// root.
func (a *asker) apt() error {
	out, err := a.run(nil, "apt-get", "indextargets", "--format", "$(SITE)")
	if err != nil {
		return err
	}
	a.addAll(strings.Fields(string(out.Stdout)))
	return nil
}

// nix asks nix for its binary caches.
func (a *asker) nix() error {
	out, err := a.run(nil, "nix", "--extra-experimental-features", "nix-command", "config", "show", "--json")
	if err != nil { // before 2.20
		out, err = a.run(nil, "nix", "--extra-experimental-features", "nix-command", "show-config", "--json")
	}
	if err != nil {
		return err
	}
	var config map[string]struct{ Value any }
	if err := json.Unmarshal(out.Stdout, &config); err != nil {
		return errors.New("nix does not say what is configured")
	}
	caches := a.addAll(texts(config["substituters"].Value))
	keys := texts(config["trusted-public-keys"].Value)
	a.set.Env["NIX_CONFIG"] = "substituters = " + strings.Join(caches, " ") + "\ntrusted-public-keys = " + strings.Join(keys, " ")
	return nil
}

// texts are the strings of a JSON value: a list of them, or words.
func texts(value any) (all []string) {
	switch value := value.(type) {
	case string:
		return strings.Fields(value)
	case []any:
		for _, item := range value {
			if text, ok := item.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// simpleIndex finds the address of an index in a tool's help (PEP 503).
var simpleIndex = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`https?://[^\s<>()"'\]]+/simple\b/?`) })

// pypi asks pip, or else uv. What is configured for uv counts as well.
func (a *asker) pypi() error {
	var config pipConfig
	for _, pip := range []string{"pip", "pip3"} {
		out, err := a.run(nil, pip, "config", "list")
		if err != nil {
			continue
		}
		// Reads the output of `pip config list`: lines of key='value', the value as Python writes
		// it.
		text := string(out.Stdout)
		for line := range strings.Lines(text) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
			words := strings.Fields(strings.ReplaceAll(strings.Trim(value, `'"`), `\n`, " "))
			switch option := key[strings.LastIndex(key, ".")+1:]; {
			case len(words) == 0:
			case option == "index-url":
				config.index = words[0]
			case option == "extra-index-url":
				config.extra = append(config.extra, words...)
			case option == "trusted-host":
				config.trusted = append(config.trusted, words...)
			}
		}
		if config.index == "" {
			out, _ = a.run([]string{"COLUMNS=400"}, pip, "install", "--help")
			config.fallback = simpleIndex().FindString(string(out.Stdout))
		}
		break
	}
	if err := a.uv(&config); err != nil {
		return err
	}
	if config.index == "" && config.fallback == "" {
		if out, err := a.run(nil, "uv", "help", "pip", "install"); err == nil {
			config.fallback = simpleIndex().FindString(string(out.Stdout))
		}
	}
	if config.index+config.fallback+strings.Join(config.extra, "") == "" {
		return errors.New("neither pip nor uv is there to say it")
	}
	asked := slices.DeleteFunc(append([]string{config.index, config.fallback}, config.extra...), func(s string) bool { return s == "" })
	if config.index != "" { // which takes the default's place
		asked = slices.DeleteFunc(asked, func(s string) bool { return s == config.fallback })
	}
	for _, index := range asked {
		a.add(index)
	}
	for _, index := range asked {
		a.filesOf(index)
	}
	config.write(a)
	return nil
}

// link finds the links of a page of an index (PEP 503).
var link = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)<a\s[^>]*href\s*=\s*["']([^"'#]+)`) })

// filesOf adds the hosts that an index serves its files from. No configuration names them: they
// stand in the page of each package, so that of pip itself is asked for.
func (a *asker) filesOf(index string) {
	base, err := url.Parse(strings.TrimSuffix(index, "/") + "/pip/")
	if err != nil {
		return
	}
	for _, found := range link().FindAllSubmatch(a.get(base.String(), "where "+base.Host+" has its files"), -1) {
		if to, err := base.Parse(string(found[1])); err == nil {
			a.addSaid(to.String(), index)
		}
	}
}

// pipConfig is what is configured for pip and uv.
type pipConfig struct {
	index    string // "" is the tool's default
	fallback string // that default
	extra    []string
	trusted  []string
}

// write puts the configuration inside, if there is one, where pip and uv look below the project's
// own.
func (c *pipConfig) write(a *asker) {
	if c.index == "" && len(c.extra) == 0 {
		return
	}
	clean := asker{} // the hosts are known already
	pip, uv := []string{"[global]"}, []string{}
	if index, ok := clean.add(c.index); ok {
		pip, uv = append(pip, "index-url = "+index), append(uv, fmt.Sprintf("index-url = %q", index))
	}
	if extra := clean.addAll(c.extra); len(extra) > 0 {
		pip = append(pip, "extra-index-url = "+strings.Join(extra, " "))
		uv = append(uv, `extra-index-url = ["`+strings.Join(extra, `", "`)+`"]`)
	}
	if len(c.trusted) > 0 {
		pip = append(pip, "trusted-host = "+strings.Join(c.trusted, " "))
	}
	a.file("/etc/pip.conf", pip...)
	a.file("/etc/uv/uv.toml", uv...)
}
