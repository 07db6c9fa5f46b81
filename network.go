package forage

// NetworkMode is how much of the network a sandbox may ask for.
type NetworkMode string

// The network modes. The empty mode is NetworkNone.
const (
	NetworkNone       NetworkMode = "none"
	NetworkRestricted NetworkMode = "restricted"
	NetworkFull       NetworkMode = "full"
)

// Network is a sandbox's network policy as written. The zero value denies all.
type Network struct {
	Mode NetworkMode `json:"mode"`
	// Allow are the allowed destinations: "host", "host:port", "*.suffix",
	// "*.suffix:port", a literal address, "address:port" or "[v6]:port", or "@set".
	Allow []string `json:"allow,omitempty"`
	// Sets are the hosts of those sets of Allow and Rules that have been found: by name, with the
	// "@".
	Sets map[string][]string `json:"sets,omitempty"`
	// Rules are finer than a host. Their order means nothing.
	Rules []Rule `json:"rules,omitempty"`
	// Monitor lets through what no rule allows, and records that it would have
	// been denied. What no rule could allow (the host's own addresses, malformed
	// requests) is denied all the same.
	Monitor bool `json:"monitor,omitempty"`
}

// Rule allows, or with Deny denies, some of the requests to a host. A host of
// which rules allow something may be asked for nothing else, wherever else it
// is allowed.
type Rule struct {
	// As in allowedHosts; of a set, each of its hosts has the rule.
	Host string `json:"host"`
	// Methods of HTTP, in upper case; none is any.
	Methods []string `json:"methods,omitempty"`
	// Patterns of whole paths: * matches within a segment, ** any number of segments; none is any.
	Paths []string `json:"paths,omitempty"`
	// Deny what the rule describes.
	Deny bool `json:"deny,omitempty"`
	// Allow git over HTTPS, and nothing else.
	Git *GitRule `json:"git,omitempty"`
	// Look into every request to the host, whatever the rule says of them.
	Inspect bool `json:"inspect,omitempty"`
}

// GitRule allows git over HTTPS (gitprotocol-http(5)) and nothing else. The zero value allows
// nothing.
type GitRule struct {
	// Repositories that may be fetched from, without .git: owner/name, owner/*.
	Repos []string `json:"repos,omitempty"`
	// Branches, or refs, of those that may be made or moved forward: agent/*, refs/tags/v*.
	Push []string `json:"push,omitempty"`
}

// NetworkFacts are host-side facts about the network, the same for every
// template.
type NetworkFacts struct {
	// Resolve dials "address:port" instead of "name:port", and so allows that
	// address for that name.
	Resolve map[string]string `json:"resolve,omitempty"`
	// PrivateHosts are names, or "*.suffix", that may lead to addresses that are not public, though
	// never to the host itself, to its link or to a metadata service. It allows none of them.
	PrivateHosts []string `json:"privateHosts,omitempty"`
	// UpstreamCA is a PEM file with further roots that egress and the sandbox trust.
	UpstreamCA string `json:"upstreamCA,omitempty"`
	// UpstreamProxy is an http:// URL that egress dials through.
	UpstreamProxy string `json:"upstreamProxy,omitempty"`
}

// Traffic bounds what a sandbox may ask of the network. Zero means no bound.
type Traffic struct {
	RequestsPerMinute int64   `json:"requestsPerMinute,omitempty"` // HTTP requests, and connections that are not looked into
	BytesMax          int64   `json:"bytesMax,omitempty"`          // both ways, over the sandbox's life
	ConnectionsMax    int64   `json:"connectionsMax,omitempty"`    // at one time
	MaxTokens         int64   `json:"maxTokens,omitempty"`         // of language models, in and out, over the sandbox's life
	MaxCost           float64 `json:"maxCost,omitempty"`           // of those, in US dollars
}
