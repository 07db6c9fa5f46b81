package inject

import (
	"maps"
	"net"
	"slices"
	"strconv"

	"forage"
	"forage/internal/provider"
)

// Placeholders is what makes programs inside use a bound secret: its placeholder in the variables
// of its service and of the agents that authenticate with it, and the gateway's address for those
// that take one. service may be the zero Service. A login's placeholders are in files, which are
// made when the sandbox starts.
func Placeholders(b forage.Binding, service provider.Service, agents []forage.Agent) (Contribution, error) {
	c := Contribution{From: "secret " + b.Secret, Env: make(map[string]string)}
	if b.Source.Login == nil {
		service.Uses = b.Uses
		c.Env = service.Environ(b.Placeholder)
	}
	for _, agent := range agents {
		if agent.Secret != b.Secret {
			continue
		}
		if agent.AuthEnvVar != "" && b.Source.Login == nil {
			c.Env[agent.AuthEnvVar] = b.Placeholder
		}
		if agent.BaseURLEnvVar == "" {
			continue
		}
		address, ok := gatewayURL(b, service)
		if !ok {
			return c, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "baseUrlEnvVar %s: there is no gateway for the secret %s", agent.BaseURLEnvVar, b.Secret),
				"a gateway is part of the presets of language models: take baseUrlEnvVar away, and the agent's TLS is intercepted instead")
		}
		c.Env[agent.BaseURLEnvVar] = address
	}
	return c, nil
}

// gatewayURL is where the first of a binding's hosts that has a gateway is reached in
// the clear, inside.
func gatewayURL(b forage.Binding, service provider.Service) (string, bool) {
	for _, use := range b.Uses {
		if use.Gateway != "" {
			return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(forage.ProxyPort)) + "/" + use.Gateway + service.BasePath, true
		}
	}
	return "", false
}

// Variables are the variables that Placeholders would set or wrappers export: a user who gives one
// of them a value of its own does without the secret.
func Variables(secret string, service provider.Service, agents []forage.Agent) []string {
	names := slices.Sorted(maps.Keys(service.Environ("id:key")))
	for _, agent := range agents {
		if agent.Secret == secret && agent.AuthEnvVar != "" {
			names = append(names, agent.AuthEnvVar)
		}
	}
	return names
}
