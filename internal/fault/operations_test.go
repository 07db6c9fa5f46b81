package fault

// operation is what is killed on its way.
type operation struct {
	name       string
	before     []string // commands, one argument for the shell each, that make what it is about and leave nothing running
	do         string   // for the shell. With supervisor, several commands, of which the supervisor is killed that they start
	supervisor bool
	work       []string // texts that are on this host, and must not be lost
	done       []string // what the command says, beside exit 0, when it was done already
	check      string   // for the shell: succeeds when it was done
	jj         bool
	changes    bool // the user's own files, too
}

const (
	inWorktree = `$forage up box --git-worktree $repo && `
	inClone    = `$forage up box --clone $repo && `
	jjInit     = "jj git init $repo --git-repo $repo 2>&1 || jj git init --colocate $repo"
	inJJ       = `$forage up box --repo $repo && $forage exec box -- sh -c 'echo committed-work > done; jj commit -m said-work && echo uncommitted-work > new' && $forage stop box`
	noTree     = `! test -e $state/workspaces/box`
	worked     = `$forage exec box -- sh -c 'echo committed-work > done; git add done; git commit -q -m said-work && echo uncommitted-work > new' && $forage stop box`
)

// What a command says that finds itself done.
var (
	running = []string{"already running"}
	removed = []string{"no sandbox is called box"}
	forked  = []string{"there already"}
)

var theWork = []string{"committed-work", "said-work", "uncommitted-work"}

var operations = []operation{
	{name: "up -w", do: "$forage up box -w $repo", done: running, check: "$forage exec box -- git status"},
	{name: "up --git-worktree", do: "$forage up box --git-worktree $repo", done: running, check: "$forage exec box -- git status"},
	{name: "up --clone", do: "$forage up box --clone $repo", done: running, check: "$forage exec box -- git status"},
	{
		name: "up --repo", jj: true, before: []string{jjInit},
		do: "$forage up box --repo $repo", done: running, check: "$forage exec box -- jj status",
	},
	{
		name: "run",
		do:   `$forage run --git-worktree $repo -- sh -c 'echo committed-work > done; git add done; git commit -q -m said-work && echo uncommitted-work > new'`,
	},
	{name: "down", before: []string{inWorktree + "$forage stop box"}, do: "$forage down box", done: removed, check: noTree},
	{name: "down of a clone", before: []string{inClone + "$forage stop box"}, do: "$forage down box", done: removed, check: noTree},
	{name: "down --force", before: []string{inWorktree + worked}, do: "$forage down --force box", work: theWork, done: removed, check: noTree},
	{
		name: "down --force of a folder", changes: true, before: []string{"$forage up box -w $repo && " + worked},
		do: "$forage down --force box", work: theWork, done: removed, check: "! test -e $state/repositories/box",
	},
	{name: "down --force of a clone", before: []string{inClone + worked}, do: "$forage down --force box", work: theWork, done: removed, check: noTree},
	{
		name: "down --force of a jj workspace", jj: true, before: []string{jjInit, inJJ},
		do: "$forage down --force box", work: theWork, done: removed, check: noTree,
	},
	{
		name: "apply", changes: true, before: []string{inWorktree + worked}, do: "$forage apply box", work: theWork,
		check: "cd $repo && git log --format=%s | grep said-work && grep uncommitted-work new",
	},
	{
		name: "apply in a jj repository", jj: true, changes: true, before: []string{jjInit, inJJ}, do: "$forage apply box", work: theWork,
		check: "cd $repo && jj log --no-graph -r ::main -T description | grep said-work && jj file show -r main new | grep uncommitted-work",
	},
	{
		name: "snapshot create", before: []string{inWorktree + worked}, do: "$forage snapshot box create --label one", work: theWork,
		check: "$forage snapshot box list | grep one",
	},
	{
		name:   "snapshot restore",
		before: []string{inWorktree + worked + " && $forage snapshot box create --label one && rm $state/workspaces/box/new && echo since > $state/workspaces/box/done"},
		do:     "$forage snapshot box restore one",
		work:   theWork[:2], check: "grep uncommitted-work $state/workspaces/box/new && grep committed-work $state/workspaces/box/done",
	},
	{
		name: "snapshot delete", before: []string{inWorktree + worked + " && $forage snapshot box create --label one >$HOME/id"},
		do: "$forage snapshot box delete $(cat $HOME/id)", work: theWork, done: []string{"no snapshot"},
		check: "! $forage snapshot box list | grep one",
	},
	{
		name: "fork", before: []string{inWorktree + worked}, do: "$forage fork box other", work: theWork, done: forked,
		check: "$forage exec other -- git log --format=%s | grep said-work && $forage exec other -- cat new",
	},
	{
		name: "quarantine", before: []string{inWorktree + worked + " && echo hazard > $state/workspaces/box/.envrc"},
		do: "$forage quarantine box", work: append([]string{"hazard"}, theWork...), check: "! test -e $state/workspaces/box/.envrc",
	},
	{name: "gc", before: []string{inWorktree + "$forage stop box && rm $state/sandboxes/box.json"}, do: "$forage gc", check: noTree},
	{name: "reset", before: []string{inWorktree + worked}, do: "$forage reset box", work: theWork, check: "$forage exec box -- cat new"},
	{
		name: "import", before: []string{inWorktree + worked},
		do: `$forage start box && $forage exec box -- sh -c 'find "$(git rev-parse --git-dir)" -name "*.lock" -delete; git commit -q --allow-empty -m more' && $forage stop box`, supervisor: true,
		work: theWork, check: "cd $repo && git log --format=%s forage-box | grep more",
	},
}
