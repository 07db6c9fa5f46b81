package config

//go:generate go test -run TestSchemaIsFresh -update .

// The raw types are the configuration file as it is written: the same keys in
// TOML and JSON. What is absent is nil. The comments are the descriptions in the JSON schema.

// rawFile is Forage's configuration.
type rawFile struct {
	// Whose identity sandboxes run with, when root calls.
	User *string `json:"user,omitempty"`
	// OpenSSH public keys that may log in to every sandbox, beside Forage's own.
	AuthorizedKeys []string `json:"authorizedKeys,omitempty"`
	// Ports that sandboxes' SSH servers are reached on, from the host.
	PortRange *rawPortRange `json:"portRange,omitempty"`
	// Address that those ports listen on.
	SSHListen *string `json:"sshListen,omitempty"`
	// Template of a sandbox that names none and whose command has none.
	DefaultTemplate *string `json:"defaultTemplate,omitempty"`
	// What the names of containers begin with, where the runtime has containers.
	ContainerPrefix *string `json:"containerPrefix,omitempty"`
	// Host-side facts about the network, for all templates.
	Network *rawNetwork `json:"network,omitempty"`
	// Sets of hosts by name, for "@NAME" wherever hosts are allowed; "@NAME" in its own list is what the user's tools say.
	HostSets map[string][]string `json:"hostSets,omitempty"`
	// What nobody may ask for, whatever a template or a flag says.
	Forbid *rawForbid `json:"forbid,omitempty"`
	// Credentials, by name.
	Secrets map[string]rawSecret `json:"secrets,omitempty"`
	// Kinds of sandbox, by name.
	Templates map[string]rawTemplate `json:"templates,omitempty"`
	// How you learn that an agent waits or has ended, or that a sandbox has failed.
	Notify *rawNotify `json:"notify,omitempty"`
	// What programs inside may do to your terminal beside writing on its screen: clipboard, title.
	Terminal []string `json:"terminal,omitempty"`
	// What forage-ctl proxy serves.
	Proxy *rawProxy `json:"proxy,omitempty"`
}

// rawNotify says how the user is told of what agents do.
type rawNotify struct {
	// Show it on the desktop.
	Desktop *bool `json:"desktop,omitempty"`
	// Ring the bell of terminals with forage-ctl ssh, shell or logs -f.
	Bell *bool `json:"bell,omitempty"`
	// Run this on the host, without a shell; FORAGE_SANDBOX, FORAGE_STATE and FORAGE_EXIT_CODE say what has happened.
	Command []string `json:"command,omitempty"`
}

// rawPortRange is a range of ports, both ends included.
type rawPortRange struct {
	From *int64 `json:"from,omitempty"`
	To   *int64 `json:"to,omitempty"`
}

// rawNetwork holds facts about the host's network.
type rawNetwork struct {
	// Dial this address instead of a name: "name:port" = "address:port". That address is then allowed for that name.
	Resolve map[string]string `json:"resolve,omitempty"`
	// Names, or *.suffix, that may lead to addresses which are not public. It allows none of them.
	PrivateHosts []string `json:"privateHosts,omitempty"`
	// PEM file with further certificate authorities to trust.
	UpstreamCA *string `json:"upstreamCA,omitempty"`
	// Proxy that everything leaves the host through: http://host:port.
	UpstreamProxy *string `json:"upstreamProxy,omitempty"`
}

// rawForbid is what a system's or a project's file forbids.
type rawForbid struct {
	// Host paths that may not be shown inside: * matches within a name, ** any number of names, ~ is the caller's home.
	Mounts []string `json:"mounts,omitempty"`
	// Flags that may not be used, without their dashes.
	Flags []string `json:"flags,omitempty"`
	// Network modes that no sandbox may have; monitor is monitor mode.
	Networks []string `json:"networks,omitempty"`
	// Runtimes that no sandbox may use.
	Runtimes []string `json:"runtimes,omitempty"`
}

// rawSecret is a credential: one source, and where and how it is used.
type rawSecret struct {
	// Read it from this file.
	File *string `json:"file,omitempty"`
	// Read it from this variable of the caller's environment.
	Env *string `json:"env,omitempty"`
	// Read it from the output of this command.
	Command []string `json:"command,omitempty"`
	// Read it from the keyring: service/user.
	Keyring *string `json:"keyring,omitempty"`
	// An agent's own login on this host: claude or chatgpt.
	Login *string `json:"login,omitempty"`
	// Where that login is, if not in the agent's own place.
	LoginFile *string `json:"loginFile,omitempty"`
	// Service that is built in, for what the rest doesn't say; else that of the secret's name.
	Preset *string `json:"preset,omitempty"`
	// Hosts that it may be sent to.
	Hosts []string `json:"hosts,omitempty"`
	// What carries it: header, bearer, basic, query, placeholder or aws-sigv4.
	Inject *string `json:"inject,omitempty"`
	// Request header that carries it.
	Header *string `json:"header,omitempty"`
	// What the header says, with {} in the place of the value.
	Format *string `json:"format,omitempty"`
	// Query parameter that carries it.
	Query *string `json:"query,omitempty"`
	// User of basic authentication.
	User *string `json:"user,omitempty"`
}

// rawTemplate is a kind of sandbox.
type rawTemplate struct {
	// What it is for, in a line.
	Description *string `json:"description,omitempty"`
	// What isolates; else the best that this host can run.
	Runtime *string `json:"runtime,omitempty"`
	// Root filesystem: host, image:REFERENCE, dir:PATH or oci:PATH.
	Rootfs *string `json:"rootfs,omitempty"`
	// Network mode: full, restricted or none.
	Network *string `json:"network,omitempty"`
	// What a restricted network lets through: host, host:port, *.suffix, *.suffix:port, address:port, @SET.
	AllowedHosts []string `json:"allowedHosts,omitempty"`
	// The agent may read the workspace and not change it.
	ReadOnlyWorkspace *bool `json:"readOnlyWorkspace,omitempty"`
	// The home inside: kept on disk over stop and start, or ephemeral.
	Home *string `json:"home,omitempty"`
	// Named volumes, which sandboxes share: name = path inside.
	Volumes map[string]string `json:"volumes,omitempty"`
	// What host tools execute at the root of the workspace (.envrc, .vscode, ...) can't be changed from inside; it is so unless this is false.
	Protect *bool `json:"protect,omitempty"`
	// Caches of the host's package managers that can be read inside: go, cargo, npm, pip, uv, maven, gradle. All of them, unless said; [] is none.
	Caches *[]string `json:"caches,omitempty"`
	// Show the workspace at its path on the host too, and work there.
	SamePath *bool `json:"samePath,omitempty"`
	// The agent may make user namespaces of its own.
	NestedNamespaces *bool `json:"nestedNamespaces,omitempty"`
	// Bounds; one that this host can't enforce is an error when a sandbox starts.
	ResourceLimits *rawLimits `json:"resourceLimits,omitempty"`
	// Variables inside.
	Env map[string]string `json:"env,omitempty"`
	// Shell command lines that run inside, in order, before the agent.
	InitCommands []string `json:"initCommands,omitempty"`
	// Packages that the root filesystem shall have (NixOS).
	ExtraPackages []string `json:"extraPackages,omitempty"`
	// What the agent is taught about the sandbox.
	Skills *rawSkills `json:"skills,omitempty"`
	// Coding tools, by name; the one named like the template is started.
	Agents map[string]rawAgent `json:"agents,omitempty"`
	// Settings of Claude Code, as its settings.json has them.
	ClaudeSettings map[string]any `json:"claudeSettings,omitempty"`
	// Rules finer than a host; their order means nothing.
	Rules []rawRule `json:"rules,omitempty"`
	// Let through and record what no rule allows, instead of denying it.
	Monitor *bool `json:"monitor,omitempty"`
	// Bounds on what is asked of the network.
	Traffic *rawTraffic `json:"traffic,omitempty"`
	// Secrets that it may use, beside those of its agents.
	Secrets []string `json:"secrets,omitempty"`
	// How agents get secrets: inject (on the host, into requests) or wrapper (files inside, which is weaker).
	SecretMode *string `json:"secretMode,omitempty"`
	// Parts that the workspace is composed of.
	Workspace *rawWorkspace `json:"workspace,omitempty"`
}

// rawLimits bounds what a sandbox uses.
type rawLimits struct {
	// Percent of one processor: "200%" is two.
	CPUQuota *string `json:"cpuQuota,omitempty"`
	// Memory: a number with K, M, G or T.
	MemoryMax *string `json:"memoryMax,omitempty"`
	// Processes and threads.
	TasksMax *int64 `json:"tasksMax,omitempty"`
	// What is written outside of mounts: a number with K, M, G or T.
	DiskMax *string `json:"diskMax,omitempty"`
	// From start to forced end: "90m", "2h".
	WallClock *string `json:"wallClock,omitempty"`
}

// rawSkills says what the agent is taught.
type rawSkills struct {
	// How to work with jj; without it, where the workspace is a jj repository.
	JJ *bool `json:"jj,omitempty"`
	// How to work with Nix; without it, where the project has a flake and the sandbox has nix.
	Nix *bool `json:"nix,omitempty"`
	// Text of your own.
	Custom *string `json:"custom,omitempty"`
}

// rawAgent is a coding tool.
type rawAgent struct {
	// Program and arguments.
	Command []string `json:"command,omitempty"`
	// Package that provides the command (NixOS).
	Package *string `json:"package,omitempty"`
	// Variable that the agent looks for its API key in.
	AuthEnvVar *string `json:"authEnvVar,omitempty"`
	// Secret that it authenticates with.
	SecretName *string `json:"secretName,omitempty"`
	// Variable that it takes its API's address from: the agent is sent to the proxy's gateway.
	BaseURLEnvVar *string `json:"baseUrlEnvVar,omitempty"`
	// Its settings folder on the host: instructions, skills, commands and the like are copied from there.
	HostConfigDir *string `json:"hostConfigDir,omitempty"`
	// Where they are inside, below the home; else the agent's own place.
	ContainerConfigDir *string `json:"containerConfigDir,omitempty"`
	// What comes in of the settings can't be changed from inside.
	HostConfigDirReadOnly *bool `json:"hostConfigDirReadOnly,omitempty"`
	// Hooks are copied too; they run inside.
	Hooks *bool `json:"hooks,omitempty"`
	// What it may do without asking.
	Permissions *rawPermissions `json:"permissions,omitempty"`
}

// rawPermissions is what an agent may do without asking.
type rawPermissions struct {
	// Ask for nothing (the default: the sandbox is the permission).
	SkipAll *bool `json:"skipAll,omitempty"`
	// What it may do, in the agent's own words.
	Allow []string `json:"allow,omitempty"`
	// What it may not do, which counts more.
	Deny []string `json:"deny,omitempty"`
}

// rawRule allows, or denies, some of the requests to a host.
type rawRule struct {
	// As in allowedHosts.
	Host *string `json:"host,omitempty"`
	// Methods of HTTP, in upper case; none is any.
	Methods []string `json:"methods,omitempty"`
	// Patterns of whole paths: * matches within a segment, ** any number of segments; none is any.
	Paths []string `json:"paths,omitempty"`
	// Deny what the rule describes.
	Deny *bool `json:"deny,omitempty"`
	// Allow git over HTTPS, and nothing else.
	Git *rawGit `json:"git,omitempty"`
	// Look into every request to the host.
	Inspect *bool `json:"inspect,omitempty"`
}

// rawGit is what git may do.
type rawGit struct {
	// Repositories that may be fetched from, without .git: owner/name, owner/*.
	Repos []string `json:"repos,omitempty"`
	// Branches, or refs, that may be made or moved forward: agent/*, refs/tags/v*.
	Push []string `json:"push,omitempty"`
}

// rawTraffic is what may be asked of the network.
type rawTraffic struct {
	// HTTP requests in a minute, and connections that are not looked into.
	RequestsPerMinute *int64 `json:"requestsPerMinute,omitempty"`
	// Bytes both ways, over the sandbox's life: a number with K, M, G or T.
	BytesMax *string `json:"bytesMax,omitempty"`
	// Connections at one time.
	ConnectionsMax *int64 `json:"connectionsMax,omitempty"`
	// Tokens of language models, in and out, over the sandbox's life.
	MaxTokens *int64 `json:"maxTokens,omitempty"`
	// US dollars that those tokens cost.
	MaxCost *float64 `json:"maxCost,omitempty"`
}

// rawWorkspace composes a workspace.
type rawWorkspace struct {
	// Parts of the workspace, by name; main is the one at /workspace.
	Mounts map[string]rawWorkspaceMount `json:"mounts,omitempty"`
}

// rawWorkspaceMount is one part of a composed workspace.
type rawWorkspaceMount struct {
	// Where it is inside, :ro at the end makes it read-only. Parts may be in /workspace, and not otherwise in one another.
	ContainerPath *string `json:"containerPath,omitempty"`
	// Folder or repository on the host; for the mode clone a URL too.
	Repo *string `json:"repo,omitempty"`
	// How it is made: direct (as it is), git-worktree, jj or clone.
	Mode *string `json:"mode,omitempty"`
	// What a worktree, jj workspace or clone starts from; else HEAD.
	Branch *string `json:"branch,omitempty"`
	// The agent may read it and not change it.
	ReadOnly *bool `json:"readOnly,omitempty"`
}

// rawProject is a project's own .forage.toml. It can only take away from what
// the chosen template allows. Of rules it may have those that deny.
type rawProject struct {
	Network           *string     `json:"network,omitempty"`
	AllowedHosts      []string    `json:"allowedHosts,omitempty"`
	Home              *string     `json:"home,omitempty"`
	ReadOnlyWorkspace *bool       `json:"readOnlyWorkspace,omitempty"`
	Protect           *bool       `json:"protect,omitempty"`
	ResourceLimits    *rawLimits  `json:"resourceLimits,omitempty"`
	Rules             []rawRule   `json:"rules,omitempty"`
	Traffic           *rawTraffic `json:"traffic,omitempty"`
	Forbid            *rawForbid  `json:"forbid,omitempty"`
}
