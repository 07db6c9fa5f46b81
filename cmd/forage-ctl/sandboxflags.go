package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
)

// sandboxFlags adds the flags that describe a sandbox, which up and run share.
func sandboxFlags(c *cobra.Command, o *plan.Options) {
	flags := c.Flags()
	flags.SetNormalizeFunc(otherNames)
	flags.StringVarP(&o.Template, "template", "t", "", "make it from this `TEMPLATE` (also --profile); see 'forage-ctl templates'")
	flags.StringVarP(&o.Workspace, "workspace", "w", "", "mount the folder `PATH` at /workspace (default: the current folder)")
	flags.StringVar(&o.GitWorktree, "git-worktree", "", "work in a new worktree of the git repository `PATH`, on the branch forage-NAME")
	flags.StringVar(&o.Repo, "repo", "", "work in a new workspace, called NAME, of the jj repository `PATH`")
	flags.StringVar(&o.Clone, "clone", "", "work in a private clone of the git repository `URL|PATH`")
	flags.StringVar(&o.Branch, "branch", "", "start the worktree, jj workspace or clone from the branch or revision `B` (default: HEAD)")
	flags.BoolVar(&o.SamePath, "same-path", false, "show the workspace at its path on the host too, and work there")
	flags.BoolVar(&o.ReadOnly, "read-only", false, "let the sandbox read the workspace only")
	flags.StringVar(&o.Runtime, "runtime", "", "isolate with this `RUNTIME` (also --backend); see 'forage-ctl runtimes'")
	flags.Var(choice{&o.Network, networkModes()}, "network", "what may be reached: nothing, the allowed hosts, or the internet")
	flags.StringArrayVar(&o.Allow, "allow", nil, "also allow `HOST[:PORT]`, '*.suffix', an address or @SET, such as @npm (repeatable)")
	flags.BoolVar(&o.Monitor, "monitor", false, "let through what the network's rules would deny, and record it")
	flags.StringArrayVar(&o.Mounts, "mount", nil, "show `SRC:DST[:ro|rw]` inside, read-only unless rw is said (repeatable)")
	flags.StringArrayVarP(&o.Volumes, "volume", "v", nil, "show a named volume, which sandboxes share: `NAME:DST[:ro]`; with a path (/... or ./...) for the name, as --mount (repeatable)")
	flags.StringArrayVarP(&o.Env, "env", "e", nil, "set a variable inside, or pass the caller's on: `K[=V]` (repeatable)")
	flags.StringArrayVar(&o.SSHKeys, "ssh-key", nil, "let the public key in `FILE` log in (repeatable)")
	flags.StringVar(&o.GitUser, "git-user", "", "the author `NAME` of commits (default: the caller's)")
	flags.StringVar(&o.GitEmail, "git-email", "", "the author `MAIL` of commits (default: the caller's)")
	flags.Var(choice{&o.IdentityMode, []string{"sandbox-user", "host-user"}}, "identity-mode", "the user's name inside, agent or the caller's: `MODE` is sandbox-user or host-user")
}

// otherNames gives the flags that have two names the one that we use.
func otherNames(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	switch name {
	case "backend":
		name = "runtime"
	case "profile":
		name = "template"
	}
	return pflag.NormalizedName(name)
}

func networkModes() []string {
	return []string{string(forage.NetworkFull), string(forage.NetworkRestricted), string(forage.NetworkNone)}
}

// checkWorkspace refuses flags that say of the workspace what can't be true together.
func checkWorkspace(c *cobra.Command) error {
	names := []string{"workspace", "git-worktree", "repo", "clone", "branch"}
	if err := notEmpty(c, names...); err != nil {
		return err
	}
	given := ""
	for _, name := range names {
		switch {
		case !c.Flags().Changed(name):
		case name == "branch": // the template may have something that it is for
			if given == "workspace" {
				return usageError(c, "--branch: the folder of --workspace is mounted as it is; name the repository with --git-worktree, --repo or --clone")
			}
		case given != "":
			return usageError(c, "--%s and --%s exclude one another: a sandbox has one workspace", given, name)
		default:
			given = name
		}
	}
	return nil
}

// terminal holds the flags that say whether the command inside gets a terminal.
type terminal struct{ yes, no bool }

func (t *terminal) add(c *cobra.Command) {
	c.Flags().BoolVar(&t.yes, "tty", false, "give the command a terminal (default: when we have one)")
	c.Flags().BoolVar(&t.no, "no-tty", false, "give it pipes, even on a terminal")
	dockerHabits(c)
}

// stdio is our own streams, as the command inside is to have them.
func (t terminal) stdio(a *app) sandbox.Stdio {
	return sandbox.Stdio{In: a.in, Out: a.out, Err: a.err, TTY: t.yes || !t.no && a.interactive()}
}

// wholeTerminal is our own terminal, for what makes no sense without one.
func wholeTerminal(c *cobra.Command, a *app) (sandbox.Stdio, error) {
	if !a.interactive() {
		return sandbox.Stdio{}, usageError(c, "stdin and stdout are not a terminal")
	}
	return terminal{yes: true}.stdio(a), nil
}

func (t terminal) check(c *cobra.Command) error {
	if t.yes && t.no {
		return usageError(c, "--tty and --no-tty exclude each other")
	}
	return nil
}

// tellPlan says what there is to know of a plan that is only shown.
func (a *app) tellPlan(made plan.Made) {
	a.notes(made.Notes)
	if made.Missing != nil {
		a.note(made.Missing.Error() + ": " + forage.Hint(made.Missing))
	}
}
