package inject

import (
	"net"
	"slices"
	"strings"

	"forage"
)

// sshNames are other names under which forges serve SSH on a port that
// firewalls let through.
var sshNames = map[string]string{
	"github.com": "ssh.github.com:443",
	"gitlab.com": "altssh.gitlab.com:443",
}

// Git is what makes git inside use a bound secret: it goes over HTTPS, where egress puts the secret
// in, also to remotes that are written for SSH, and never asks for a password. It is nothing for a
// secret that git has no use for.
func Git(b forage.Binding) Contribution {
	c := Contribution{From: "secret " + b.Secret}
	hosts := gitHosts(b)
	if len(hosts) == 0 {
		return c
	}
	c.Git = GitConfig(hosts)
	c.Env = map[string]string{"GIT_TERMINAL_PROMPT": "0"} // a refusal is an error at once
	return c
}

// gitHosts are the hosts to which a secret goes as a password, which is what git's servers
// ask for. Wildcards aren't among them: git's configuration has none.
func gitHosts(b forage.Binding) []string {
	var hosts []string
	for _, use := range b.Uses {
		if use.Place != forage.PlaceBasic {
			continue
		}
		for _, host := range use.Hosts {
			if !strings.Contains(host, "*") && !slices.Contains(hosts, host) {
				hosts = append(hosts, host)
			}
		}
	}
	return hosts
}

// GitConfig is git's configuration (git-config(1)) for hosts, "host" or
// "host:port" of HTTPS, that are reached with a secret which git doesn't have.
func GitConfig(hosts []string) string {
	var b strings.Builder
	for _, host := range hosts {
		b.WriteString("[url " + gitQuote("https://"+host+"/") + "]\n")
		for _, from := range sshForms(host) {
			b.WriteString("\tinsteadOf = " + gitQuote(from) + "\n")
		}
	}
	b.WriteString("[credential]\n\thelper =\n") // empty: those of the system, named before, are forgotten
	return b.String()
}

// sshForms are the beginnings of remotes that mean host over SSH.
func sshForms(host string) []string {
	name := host
	if only, _, err := net.SplitHostPort(host); err == nil {
		name = only // of HTTPS: SSH has its own
	}
	bare := strings.Trim(name, "[]")
	if strings.Contains(bare, ":") {
		name = "[" + bare + "]"
	}
	forms := []string{"git@" + name + ":", "ssh://git@" + name + "/", "ssh://git@" + name + ":22/"}
	if other, ok := sshNames[name]; ok {
		forms = append(forms, "ssh://git@"+other+"/")
	}
	return forms
}

// gitQuote writes a value, or the name of a section, as git-config(1) reads it back.
func gitQuote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", "", "\x00", "").Replace(value) + `"`
}
