package provider

import (
	"maps"
	"slices"
)

// sets are the sets of hosts that are ours to know: forges, model hubs and registries of images.
var sets = map[string][]string{
	"github": {
		"github.com", "api.github.com", "codeload.github.com", "gist.github.com", "uploads.github.com",
		"*.githubusercontent.com", "ghcr.io",
	},
	"gitlab":      {"gitlab.com", "registry.gitlab.com"},
	"docker":      {"docker.io", "*.docker.io", "production.cloudflare.docker.com", "production.cloudfront.docker.com"},
	"huggingface": {"huggingface.co", "*.huggingface.co", "hf.co", "*.hf.co"},
}

// asked are the sets of package registries: which hosts they are is said by the user's own tools.
var asked = []string{"npm", "pypi", "go", "cargo", "maven", "rubygems", "debian", "nix"}

// SetNames are the names of all sets of hosts, without their "@", sorted.
func SetNames() []string {
	return slices.Sorted(slices.Values(append(slices.Collect(maps.Keys(sets)), asked...)))
}

// SetHosts are the hosts of a set that is ours to know, as they are allowed; nil is another.
func SetHosts(name string) []string { return slices.Clone(sets[name]) }
