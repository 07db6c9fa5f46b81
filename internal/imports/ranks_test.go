package imports

// rank is where a room stands: it may import rooms of a lower rank, and no
// other. A room is a folder below internal/ with all that is in it.
type rank int

// room is one row of the table.
type room struct {
	name string
	rank rank
	why  string
}

// rooms is the whole table; a folder that is not in it fails the test. The
// root package is below all of them.
var rooms = []room{
	{"deadline", -1, "the rule for what does not answer is the same everywhere, so every room may import it"},

	{"policy", 0, "pure rules: a decision must not depend on the system"},
	{"hostexec", 0, "starting a host program needs nothing but the standard library"},
	{"term", 0, "escaping and tables work on strings, wherever they come from"},
	{"control", 0, "the control channel is spoken by host and guest, which share nothing else"},
	{"accept", 0, "who is let in is decided above"},
	{"mux", 0, "many streams over one, whatever they carry"},
	{"unixsock", 0, "long socket paths are a matter of the kernel alone"},
	{"pipe", 0, "reading from a pipe whose writers die is a matter of the kernel alone"},
	{"systemd", 0, "telling the service manager is the same for every service"},
	{"sshkeys", 0, "keys are made and read the same on both sides"},
	{"probe", 0, "attacks from inside, knowing nothing of what it attacks"},
	{"agent", 0, "facts about agents, for every room"},
	{"provider", 0, "facts about services: how their credentials look, which hosts they have"},
	{"screen", 0, "a terminal in memory: bytes in, text out"},
	{"tail", 0, "reading a file that grows is a matter of the kernel alone"},
	{"rootfs", 0, "the view of the host is the same for every runtime"},
	{"seccomp", 0, "the filter is the same for every runtime"},
	{"landlock", 0, "the rules of the domain are the same for every runtime"},
	{"idle", 0, "memory of this process, whatever it does"},
	{"nofile", 0, "a limit of this process; it must import nothing to be initialised first"},
	{"mount", 0, "mounting by descriptor is a matter of the kernel alone"},
	{"hostile", 0, "hostile folders are walked and removed the same by everybody"},

	{"secrets", 1, "reads values where they are kept; who may have them is decided above"},

	{"hostset", 1, "asks the user's tools for their registries; what is allowed is decided above"},
	{"config", 1, "turns files into nouns; what they mean is decided above"},
	{"audit", 1, "events are recorded by everybody, so it can know nobody"},
	{"store", 1, "keeps records; it must open one whatever wrote it"},
	{"devcontainer", 1, "turns a project's file into nouns; what they mean is decided above"},
	{"image", 1, "unpacking is the same for every runtime"},
	{"limits", 1, "cgroups and rlimits are the same for every runtime"},
	{"netns", 1, "namespace set-up is the same for every runtime"},
	{"browse", 1, "judges addresses by the policy's names; who asks and who opens is decided elsewhere"},
	{"jail", 1, "one program over untrusted data: it knows no sandbox and no repository"},

	{"runtime", 2, "isolates; it knows no records, no policy and no SSH"},
	{"workspace", 2, "prepares files; it doesn't know what will run on them"},
	{"recommend", 2, "turns what was recorded into rules; it knows no sandbox"},
	{"egress", 2, "judges traffic; it doesn't know what runtime it comes from"},
	{"skills", 2, "turns a plan and a project's files into text; it doesn't know who reads it"},
	{"inject", 2, "what agents find inside; it doesn't know what runtime puts it there"},

	{"picker", 1, "a screen over rows and commands that it is given: it knows no sandbox"},

	{"reviewscreen", 3, "a screen over a review that it is given: it knows no sandbox and no command"},

	{"notify", 2, "tells the user what was decided above"},

	{"guest", 3, "runs inside: what it links, the sandbox's first process carries"},

	{"egressconfig", 3, "the wiring of egress is the same for a sandbox and for the proxy"},

	{"gateway", 4, "leads SSH clients to guests; it knows no records"},
	{"web", 4, "leads browsers to guests; it knows no records"},
	{"proxy", 4, "egress as a service of its own: it knows no sandbox"},
	{"supervisor", 4, "realises a plan, the guest's configuration included; the one place where runtime, egress and guest meet"},

	{"sandbox", 5, "plans and records: what commands call"},
}

// testRooms hold nothing but tests, and suites for tests, which may import anything.
var testRooms = map[string]string{
	"acceptance":  "stands for the user: starts the program as a whole",
	"fault":       "kills processes of the program and looks for what is left",
	"imports":     "this test",
	"testrun":     "runs the suites in CI",
	"testprogram": "builds the program for suites",
	"enginetest":  "container engines for suites",
	"testgit":     "real git, and its server, for suites",
	"testdir":     "folders and ports for suites",
}

// implementations are packages below a room that others may import besides the room's own, for the
// reason given. cmd and tests may always.
var implementations = []struct{ importer, imported, why string }{
	{"internal/supervisor", "internal/runtime/", "its registry makes the runtime that the plan names"},
	{"internal/supervisor", "internal/workspace/", "its registry makes the workspace that the plan names"},
	{"internal/supervisor", "internal/guest/guestclient", "asks the guest whether it is ready"},
	{"internal/guest/forward", "internal/egress/relay", "forwards connections as egress joins them"},
	{"internal/supervisor", "internal/egress/", "makes what an engine needs that lives as long as a sandbox: authority, account, credentials"},
	{"internal/supervisor", "internal/secrets/login", "puts an agent's login inside, with placeholders"},
	{"internal/egressconfig", "internal/secrets/login", "opens the sources of secrets, logins among them"},
	{"internal/egressconfig", "internal/egress/", "what an engine needs, for sandboxes and for the proxy"},
	{"internal/inject", "internal/secrets/login", "placeholders look like the tokens of a login"},
	{"internal/proxy", "internal/egress/", "makes the parts of each client's engine, and reads the first head before the engine is known"},
	{"internal/sandbox", "internal/workspace/", "forks, and takes copies of folders away again"},
	{"internal/sandbox/plan", "internal/workspace/", "asks what a repository is, and what git is configured to execute"},
	{"internal/sandbox/work", "internal/workspace/", "reviews, applies, snapshots and looks through workspaces, whatever their kind"},
	{"internal/reviewscreen", "internal/workspace/review", "draws what a review says, in its words"},
	{"internal/gateway", "internal/guest/", "speaks SSH to the guest for its clients"},
	{"internal/web", "internal/guest/", "shows a browser the agent's session, as the gateway does"},
	{"internal/sandbox", "internal/guest/guestclient", "exec, shell and run speak SSH to the guest"},
}

// starters are the packages that may import os/exec, other than in tests.
var starters = map[string]string{
	"internal/hostexec":                "the one way to start a program on the host: clean environment, timeout, no shell",
	"internal/jail":                    "starts itself in new namespaces, to become the one program of a jail",
	"internal/testrun":                 "runs go test in CI",
	"internal/testprogram":             "builds the program with go",
	"internal/testgit":                 "runs git and its server for suites",
	"internal/workspace/workspacetest": "runs git and jj for a suite",
	"bench":                            "measures whole programs, its peers included",
}

// confined are outside modules that one part of the tree alone may import.
var confined = []struct{ module, where, why string }{
	{"github.com/spf13/", "cmd/forage-ctl", "flags are parsed in one place; guest and supervisor never load it"},
	{"github.com/google/go-containerregistry/", "internal/image", "heavy: only what pulls images pays for it"},
	{"github.com/coder/websocket", "internal/web", "one place serves browsers"},
	{"charm.land/", "internal/picker internal/reviewscreen", "screens are drawn there; guest and supervisor never run them"},
	{"github.com/charmbracelet/", "internal/picker internal/reviewscreen", "parts of it"},
	{"github.com/google/nftables", "internal/netns", "rules of a namespace are made in one place"},
	{"github.com/libp2p/go-yamux/", "internal/mux", "how much the other side can make us keep is decided in one place"},
	{"github.com/vishvananda/netlink", "internal/netns", "links and routes of a namespace are made in one place"},
	{"github.com/pelletier/go-toml/", "internal/agent internal/config internal/hostset internal/inject", "strictness of our own files is decided in one place; other tools' files are read as they are"},
}
