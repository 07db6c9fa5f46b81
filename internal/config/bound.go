package config

import (
	"cmp"
	"slices"
	"strings"

	"forage"
	"forage/internal/provider"
)

// bind adds the hosts of a secret that is configured to those that are taken. The agents of a
// built-in template name theirs at a path that no file has: that is never wrong.
func (v converter) bind(t forage.Template, name string, taken map[entry]string, at string) {
	_, isWritten := v.at[at]
	if _, ok := v.config.raw.Secrets[name]; !ok {
		return
	}
	hosts, variables := reach(name, v.config.Secrets[name])
	for _, agent := range t.Agents {
		if agent.Secret == name {
			variables = append(variables, agent.AuthEnvVar)
		}
	}
	if slices.ContainsFunc(variables, func(variable string) bool { _, ok := t.Env[variable]; return ok }) {
		return
	}
	if len(hosts) == 0 && isWritten {
		v.wrong(at, "the secret %s does not say where it may go: add hosts or preset to [secrets.%s]", name, name)
	}
	for _, text := range hosts {
		host, ok := parseEntry(text)
		if !ok || t.SecretMode == forage.SecretsWrapped {
			continue // what is wrong with the host is said where it is written
		}
		host.port = cmp.Or(host.port, 443)
		other, used := taken[host]
		taken[host] = name
		if used && other != name && isWritten {
			v.wrong(at, "%s is a host of the secret %s and of %s too: a host gets one secret", strings.TrimSuffix(text, ":443"), name, other)
			return
		}
	}
}

// reach is where a secret goes, and the variables of its service: what the file says, and what is
// built in where it says nothing.
func reach(name string, s Secret) (hosts, variables []string) {
	p := provider.Of(s.Preset, name, s.Login)
	if len(s.Hosts) > 0 {
		return s.Hosts, slices.Clone(p.Env)
	}
	uses := p.Uses
	if s.Login != "" {
		uses = p.LoginUses
	}
	for _, use := range uses {
		hosts = append(hosts, use.Hosts...)
	}
	return hosts, slices.Clone(p.Env)
}
