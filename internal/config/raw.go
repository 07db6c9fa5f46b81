package config

import "forage"

//go:generate go test -run TestSchemaIsFresh -update .

// The raw types are the configuration file as it is written: the same keys in TOML and JSON.
// The comments are the descriptions in the JSON schema. `check` names what is asked about a text
// or number, or about each of a list or table, and `keys` about each key of a table: see checks.

// rawFile is Forage's configuration.
type rawFile struct {
	// Whose identity sandboxes run with, when root calls.
	User string `json:"user,omitempty" check:"user"`
	// OpenSSH public keys that may log in to every sandbox, beside Forage's own.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty" check:"key"`
	// Ports that sandboxes' SSH servers are reached on, from the host.
	PortRange rawPortRange `json:"portRange,omitempty"`
	// Address that those ports listen on.
	SSHListen string `json:"sshListen,omitempty" check:"address"`
	// Template of a sandbox that names none and whose command has none.
	DefaultTemplate string `json:"defaultTemplate,omitempty"`
	// Runtimes to choose from where none is named, best first.
	RuntimeOrder []string `json:"runtimeOrder,omitempty" check:"runtime"`
	// What the names of containers begin with, where the runtime has containers.
	ContainerPrefix string `json:"containerPrefix,omitempty" check:"prefix"`
	// How much room on disk unpacked images may take together: beyond it those go that were not used
	// for longest.
	ImagesMax string `json:"imagesMax,omitempty" check:"size"`
	// How much room on disk the results of runs may take together: beyond it gc removes the oldest
	// first.
	KeptRunsMax string `json:"keptRunsMax,omitempty" check:"size"`
	// Host-side facts about the network, for all templates.
	Network rawNetwork `json:"network,omitempty"`
	// Sets of hosts by name, for "@NAME" wherever hosts are allowed; "@NAME" in its own list is
	// what the user's tools say.
	HostSets map[string][]string `json:"hostSets,omitempty" keys:"set"`
	// What may not be asked for, whatever a template or a flag says.
	Forbid rawForbid `json:"forbid,omitempty"`
	// Credentials, by name.
	Secrets map[string]Secret `json:"secrets,omitempty" keys:"name"`
	// Kinds of sandbox, by name.
	Templates map[string]rawTemplate `json:"templates,omitempty" keys:"name"`
	// How you learn that an agent waits or has ended, or that a sandbox has failed.
	Notify rawNotify `json:"notify,omitempty"`
	// What programs inside may do to your terminal beside writing on its screen: clipboard, title.
	Terminal []string `json:"terminal,omitempty" check:"terminal"`
	// What forage-ctl proxy serves.
	Proxy *rawProxy `json:"proxy,omitempty"`
}

// rawNotify says how the user is told of what agents do.
type rawNotify struct {
	// Show it on the desktop.
	Desktop bool `json:"desktop,omitempty"`
	// Ring the bell of terminals with forage-ctl ssh, shell or logs -f.
	Bell bool `json:"bell,omitempty"`
	// Run this on the host, without a shell; FORAGE_SANDBOX, FORAGE_STATE and FORAGE_EXIT_CODE say
	// what has happened.
	Command []string `json:"command,omitempty"`
}

// rawPortRange is a range of ports, both ends included.
type rawPortRange struct {
	From int `json:"from,omitempty" check:"port"`
	To   int `json:"to,omitempty" check:"port"`
}

// rawNetwork holds facts about the host's network.
type rawNetwork struct {
	// Dial this address instead of a name: "name:port" = "address:port". That address is then
	// allowed for that name.
	Resolve map[string]string `json:"resolve,omitempty"`
	// Names, or *.suffix, that may lead to addresses which are not public. It allows none of them.
	PrivateHosts []string `json:"privateHosts,omitempty" check:"privateHost"`
	// PEM file with further certificate authorities to trust.
	UpstreamCA string `json:"upstreamCA,omitempty" check:"path"`
	// Proxy that everything leaves the host through: http://host:port.
	UpstreamProxy string `json:"upstreamProxy,omitempty" check:"proxy"`
}

// rawForbid is what a system's or a project's file forbids.
type rawForbid struct {
	// Host paths that may not be shown inside: * matches within a name, ** any number of names, ~
	// is the caller's home.
	Mounts []string `json:"mounts,omitempty" check:"pattern"`
	// Flags that may not be used, without their dashes.
	Flags []string `json:"flags,omitempty" check:"flag"`
	// Network modes that no sandbox may have; monitor is monitor mode.
	Networks []string `json:"networks,omitempty" check:"forbidNetwork"`
	// Runtimes that no sandbox may use.
	Runtimes []string `json:"runtimes,omitempty" check:"runtime"`
}

// Secret is a credential: one source, and where and how it is used.
type Secret struct {
	// Read it from this file.
	File string `json:"file,omitempty" check:"path"`
	// Read it from this variable of the caller's environment.
	Env string `json:"env,omitempty" check:"variable"`
	// Read it from the output of this command.
	Command []string `json:"command,omitempty" check:"argument"`
	// Read it from the keyring: service/user.
	Keyring string `json:"keyring,omitempty" check:"keyring"`
	// An agent's own login on this host: claude or chatgpt.
	Login forage.LoginKind `json:"login,omitempty" check:"login"`
	// Where that login is, if not in the agent's own place.
	LoginFile string `json:"loginFile,omitempty" check:"path"`
	// Service that is built in, for what the rest doesn't say; else that of the secret's name.
	Preset string `json:"preset,omitempty" check:"preset"`
	// Hosts that it may be sent to.
	Hosts []string `json:"hosts,omitempty" check:"secretHost"`
	// What carries it: header, bearer, basic, query, placeholder or aws-sigv4.
	Place forage.SecretPlace `json:"inject,omitempty" check:"inject"`
	// Request header that carries it.
	Header string `json:"header,omitempty" check:"header"`
	// What the header says, with {} in the place of the value.
	Format string `json:"format,omitempty" check:"format"`
	// Query parameter that carries it.
	Query string `json:"query,omitempty" check:"query"`
	// User of basic authentication.
	User string `json:"user,omitempty" check:"basicUser"`
}

// rawTemplate is a kind of sandbox.
type rawTemplate struct {
	// What it is for, in a line.
	Description string `json:"description,omitempty"`
	// What isolates; else the best that this host can run.
	Runtime string `json:"runtime,omitempty" check:"runtimeOf"`
	// Root filesystem: host, image:REFERENCE, dir:PATH or oci:PATH.
	Rootfs string `json:"rootfs,omitempty" check:"rootfs"`
	// Network mode: full, restricted or none.
	Network string `json:"network,omitempty" check:"network"`
	// What a restricted network lets through: host, host:port, *.suffix, *.suffix:port,
	// address:port, @SET.
	AllowedHosts []string `json:"allowedHosts,omitempty" check:"host"`
	// The agent may read the workspace and not change it.
	ReadOnlyWorkspace bool `json:"readOnlyWorkspace,omitempty"`
	// The home inside: kept on disk over stop and start, or ephemeral.
	Home string `json:"home,omitempty" check:"home"`
	// Named volumes, which sandboxes share: name = path inside.
	Volumes map[string]string `json:"volumes,omitempty" keys:"name" check:"target"`
	// What host tools execute at the root of the workspace (.envrc, .vscode, ...) can't be changed
	// from inside; it is so unless this is false.
	Protect *bool `json:"protect,omitempty"`
	// Caches of the host's package managers that can be read inside: go, cargo, npm, pip, uv,
	// maven, gradle. All of them, unless said; [] is none.
	Caches *[]string `json:"caches,omitempty" check:"cache"`
	// Show the workspace at its path on the host too, and work there.
	SamePath bool `json:"samePath,omitempty"`
	// The agent may make user namespaces of its own.
	NestedNamespaces bool `json:"nestedNamespaces,omitempty"`
	// Bounds; one that this host can't enforce is an error when a sandbox starts.
	ResourceLimits rawLimits `json:"resourceLimits,omitempty"`
	// Variables inside.
	Env map[string]string `json:"env,omitempty" keys:"variable" check:"argument"`
	// Shell command lines that run inside, in order, before the agent.
	InitCommands []string `json:"initCommands,omitempty" check:"text"`
	// Packages that the root filesystem shall have (NixOS).
	ExtraPackages []string `json:"extraPackages,omitempty" check:"text"`
	// What the agent is taught about the sandbox.
	Skills forage.Skills `json:"skills,omitempty"`
	// Coding tools, by name; the one named like the template is started.
	Agents map[string]rawAgent `json:"agents,omitempty"`
	// Settings of Claude Code, as its settings.json has them.
	ClaudeSettings map[string]any `json:"claudeSettings,omitempty"`
	// Rules finer than a host; their order means nothing.
	Rules []forage.Rule `json:"rules,omitempty"`
	// Let through and record what no rule allows, instead of denying it.
	Monitor bool `json:"monitor,omitempty"`
	// Bounds on what is asked of the network.
	Traffic rawTraffic `json:"traffic,omitempty"`
	// Secrets that it may use, beside those of its agents.
	Secrets []string `json:"secrets,omitempty"`
	// How agents get secrets: inject (on the host, into requests) or wrapper (files inside, which
	// is weaker).
	SecretMode string `json:"secretMode,omitempty" check:"secretMode"`
	// auto forwards each port that a server inside listens on to this machine's loopback.
	Forward string `json:"forward,omitempty" check:"forward"`
	// What programs inside may do to your terminal, in place of what the file says for all.
	Terminal *[]string `json:"terminal,omitempty" check:"terminal"`
	// What clients of the gateway may have forwarded from inside to them: ports (ssh -R), agent (ssh
	// -A).
	SSHForward []string `json:"sshForward,omitempty" check:"sshForward"`
	// Parts that the workspace is composed of.
	Workspace rawWorkspace `json:"workspace,omitempty"`
}

// rawLimits bounds what a sandbox uses.
type rawLimits struct {
	// Percent of one processor: "200%" is two.
	CPUQuota string `json:"cpuQuota,omitempty" check:"percent"`
	// Memory: a number with K, M, G or T.
	MemoryMax string `json:"memoryMax,omitempty" check:"size"`
	// Processes and threads.
	TasksMax int64 `json:"tasksMax,omitempty" check:"positive"`
	// What is written outside of mounts: a number with K, M, G or T.
	DiskMax string `json:"diskMax,omitempty" check:"size"`
	// From start to forced end: "90m", "2h".
	WallClock string `json:"wallClock,omitempty" check:"duration"`
}

// rawAgent is a coding tool.
type rawAgent struct {
	// Program and arguments.
	Command []string `json:"command,omitempty" check:"argument"`
	// Package that provides the command (NixOS).
	Package string `json:"package,omitempty"`
	// Variable that the agent looks for its API key in.
	AuthEnvVar string `json:"authEnvVar,omitempty" check:"variableOrNone"`
	// Secret that it authenticates with.
	SecretName string `json:"secretName,omitempty"`
	// Variable that it takes its API's address from: the agent is sent to the proxy's gateway.
	BaseURLEnvVar string `json:"baseUrlEnvVar,omitempty" check:"variableOrNone"`
	// Its settings folder on the host: instructions, skills, commands and the like are copied from
	// there.
	HostConfigDir string `json:"hostConfigDir,omitempty" check:"pathOrNone"`
	// Where they are inside, below the home; else the agent's own place.
	ContainerConfigDir string `json:"containerConfigDir,omitempty"`
	// What comes in of the settings can't be changed from inside.
	HostConfigDirReadOnly bool `json:"hostConfigDirReadOnly,omitempty"`
	// Hooks are copied too; they run inside.
	Hooks bool `json:"hooks,omitempty"`
	// What it may do without asking.
	Permissions *rawPermissions `json:"permissions,omitempty"`
}

// rawPermissions is what an agent may do without asking.
type rawPermissions struct {
	// Ask for nothing (the default: the sandbox is the permission).
	SkipAll *bool `json:"skipAll,omitempty"`
	// What it may do, in the agent's own words.
	Allow []string `json:"allow,omitempty" check:"text"`
	// What it may not do, which counts more.
	Deny []string `json:"deny,omitempty" check:"text"`
}

// rawTraffic is what may be asked of the network.
type rawTraffic struct {
	// HTTP requests in a minute, and connections that are not looked into.
	RequestsPerMinute int64 `json:"requestsPerMinute,omitempty" check:"positive"`
	// Bytes both ways, over the sandbox's life: a number with K, M, G or T.
	BytesMax string `json:"bytesMax,omitempty" check:"size"`
	// Connections at one time.
	ConnectionsMax int64 `json:"connectionsMax,omitempty" check:"positive"`
	// Tokens of language models, in and out, over the sandbox's life.
	MaxTokens int64 `json:"maxTokens,omitempty" check:"positive"`
	// US dollars that those tokens cost.
	MaxCost float64 `json:"maxCost,omitempty" check:"dollars"`
}

// rawWorkspace composes a workspace.
type rawWorkspace struct {
	// Parts of the workspace, by name; main is the one at /workspace.
	Mounts map[string]rawWorkspaceMount `json:"mounts,omitempty" keys:"name"`
}

// rawWorkspaceMount is one part of a composed workspace.
type rawWorkspaceMount struct {
	// Where it is inside, :ro at the end makes it read-only. Parts may be in /workspace, and not
	// otherwise in one another.
	ContainerPath string `json:"containerPath,omitempty"`
	// Folder or repository on the host; for the mode clone a URL too.
	Repo string `json:"repo,omitempty" check:"repo"`
	// How it is made: direct (as it is), git-worktree, jj or clone.
	Mode string `json:"mode,omitempty" check:"partMode"`
	// What a worktree, jj workspace or clone starts from; else HEAD.
	Branch string `json:"branch,omitempty" check:"text"`
	// The agent may read it and not change it.
	ReadOnly bool `json:"readOnly,omitempty"`
}

// rawProject is a project's own .forage.toml. It can only take away from what
// the chosen template allows. Of rules it may have those that deny.
type rawProject struct {
	Network           string        `json:"network,omitempty" check:"network"`
	AllowedHosts      []string      `json:"allowedHosts,omitempty" check:"host"`
	Home              string        `json:"home,omitempty" check:"home"`
	ReadOnlyWorkspace bool          `json:"readOnlyWorkspace,omitempty"`
	Protect           bool          `json:"protect,omitempty"`
	ResourceLimits    rawLimits     `json:"resourceLimits,omitempty"`
	Rules             []forage.Rule `json:"rules,omitempty"`
	Traffic           rawTraffic    `json:"traffic,omitempty"`
	Forbid            rawForbid     `json:"forbid,omitempty"`
}

// rawProxy is what forage-ctl proxy serves.
type rawProxy struct {
	// Where it listens: address:port on loopback, unix:PATH, tls:address:port.
	Listen []string `json:"listen,omitempty" check:"listen"`
	// Permissions of unix sockets, in octal. Default: 0600.
	SocketMode string `json:"socketMode,omitempty" check:"octal"`
	// PEM file with the certificate that tls listeners show, and those between it and its root.
	Certificate string `json:"certificate,omitempty" check:"path"`
	// PEM file with its private key.
	Key string `json:"key,omitempty" check:"path"`
	// PEM file with the authorities that sign the certificates of clients of tls listeners.
	ClientCA string `json:"clientCA,omitempty" check:"path"`
	// Folder of the audit logs: one for each client, and the service's own.
	AuditDir string `json:"auditDir,omitempty" check:"path"`
	// Who is served, by name.
	Clients map[string]rawProxyClient `json:"clients,omitempty" keys:"name"`
}

// rawProxyClient is one whom the proxy serves.
type rawProxyClient struct {
	// Template whose network, rules, traffic and secrets are the client's.
	Template string `json:"template,omitempty"`
	// Where its token is, on loopback and unix sockets.
	Token *rawProxyToken `json:"token,omitempty"`
	// Name in its certificate, on tls listeners: URI:..., DNS:... or CN:...
	Certificate string `json:"certificate,omitempty" check:"certificate"`
	// User that it has to run as, on the same machine; it is then served on unix sockets alone.
	PeerUID *int `json:"peerUid,omitempty" check:"uid"`
	// File to write the certificate of the client's own authority to, for it to trust.
	CAFile string `json:"caFile,omitempty" check:"path"`
}

// rawProxyToken is where a token is: in one of these.
type rawProxyToken struct {
	// Read it from this file.
	File string `json:"file,omitempty" check:"path"`
	// Read it from this variable of the proxy's environment.
	Env string `json:"env,omitempty" check:"variable"`
	// Read it from the output of this command.
	Command []string `json:"command,omitempty" check:"argument"`
}
