package main

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	xterm "golang.org/x/term"

	"forage"
	"forage/internal/sandbox"
	"forage/internal/sandbox/plan"
	"forage/internal/term"
)

// sandboxFlags adds the flags that describe a sandbox, which up and run share.
func (a *app) sandboxFlags(c *cobra.Command, o *plan.Options) {
	flags := c.Flags()
	flags.SetNormalizeFunc(otherNames)
	for _, f := range []struct {
		name, short string
		to          any // *string, *bool, *[]string or a pflag.Value
		usage       string
	}{
		{"template", "t", &o.Template, "make it from this `TEMPLATE` (also --profile); see 'forage-ctl templates'"},
		{"workspace", "w", &o.Workspace, "mount the folder `PATH` at /workspace (default: the current folder)"},
		{"git-worktree", "", &o.GitWorktree, "work in a new worktree of the git repository `PATH`, on the branch forage-NAME"},
		{"repo", "", &o.Repo, "work in a new workspace, called NAME, of the jj repository `PATH`"},
		{"clone", "", &o.Clone, "work in a private clone of the git repository `URL|PATH`"},
		{"branch", "", &o.Branch, "start the worktree, jj workspace or clone from the branch or revision `B` (default: HEAD)"},
		{"same-path", "", &o.SamePath, "show the workspace at its path on the host too, and work there"},
		{"read-only", "", &o.ReadOnly, "let the sandbox read the workspace only"},
		{"image", "", &o.Image, "use the root filesystem of this image: `REF`, oci:PATH or dir:PATH"},
		{"build", "", &o.Build, "make the image from the project's Dockerfile, with docker, podman or buildah"},
		{"devcontainer", "", &o.Devcontainer, "take the image, commands and variables of the project's devcontainer.json"},
		{"runtime", "", &o.Runtime, "isolate with this `RUNTIME` (also --backend); see 'forage-ctl runtimes'"},
		{"network", "", choice{&o.Network, networkModes()}, "what may be reached: nothing, the allowed hosts, or the internet"},
		{"allow", "", &o.Allow, "also allow `HOST[:PORT]`, '*.suffix', an address or @SET, such as @npm (repeatable)"},
		{"monitor", "", &o.Monitor, "let through what the network's rules would deny, and record it"},
		{"mount", "", &o.Mounts, "show `SRC:DST[:ro|rw]` inside, read-only unless rw is said (repeatable)"},
		{"volume", "v", &o.Volumes, "show a named volume, which sandboxes share: `NAME:DST[:ro]`; with a path (/... or ./...) for the name, as --mount (repeatable)"},
		{"env", "e", &o.Env, "set a variable inside, or pass the caller's on: `K[=V]` (repeatable)"},
		{"ssh-key", "", &o.SSHKeys, "let the public key in `FILE` log in (repeatable)"},
		{"git-user", "", &o.GitUser, "the author `NAME` of commits (default: the caller's)"},
		{"git-email", "", &o.GitEmail, "the author `MAIL` of commits (default: the caller's)"},
		{"identity-mode", "", choice{&o.IdentityMode, []string{"sandbox-user", "host-user"}}, "the user's name inside, agent or the caller's: `MODE` is sandbox-user or host-user"},
	} {
		switch to := f.to.(type) {
		case *string:
			flags.StringVarP(to, f.name, f.short, "", f.usage)
		case *bool:
			flags.BoolVarP(to, f.name, f.short, false, f.usage)
		case *[]string:
			flags.StringArrayVarP(to, f.name, f.short, nil, f.usage)
		case pflag.Value:
			flags.VarP(to, f.name, f.short, f.usage)
		}
	}
	for flag, values := range map[string]func(*sandbox.Service) []string{
		"template": func(s *sandbox.Service) []string { return offeredTemplates(s.Host.Config) },
		"runtime":  func(s *sandbox.Service) []string { return s.Host.Runtimes.Names() },
		"network":  func(*sandbox.Service) []string { return networkModes() },
	} {
		c.RegisterFlagCompletionFunc(flag, func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return a.offer(values)
		})
	}
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

// terminal holds the flags that say whether the command inside gets a terminal.
type terminal struct{ yes, no bool }

func (t *terminal) add(c *cobra.Command) {
	c.Flags().BoolVar(&t.yes, "tty", false, "give the command a terminal (default: when we have one)")
	c.Flags().BoolVar(&t.no, "no-tty", false, "give it pipes, even on a terminal")
	// Adds the flags of docker's run and exec that ask for what is so anyway.
	var asked bool
	c.Flags().BoolVarP(&asked, "interactive", "i", false, "")
	c.Flags().BoolVar(&asked, "rm", false, "")
	for _, name := range []string{"interactive", "rm"} {
		c.Flags().Lookup(name).Hidden = true
	}
}

// stdio is our own streams, as the command inside is to have them.
func (t terminal) stdio(a *app) sandbox.Stdio {
	return sandbox.Stdio{In: a.in, Out: a.out, Err: a.err, TTY: t.yes || !t.no && a.interactive()}
}

func (t terminal) check(c *cobra.Command) error {
	if t.yes && t.no {
		return usageError(c, "--tty and --no-tty exclude each other")
	}
	return nil
}

// wholeTerminal is our own terminal, for what makes no sense without one.
func wholeTerminal(c *cobra.Command, a *app) (sandbox.Stdio, error) {
	if !a.interactive() {
		return sandbox.Stdio{}, usageError(c, "stdin and stdout are not a terminal")
	}
	return terminal{yes: true}.stdio(a), nil
}

// interactive says whether a person sits at both ends.
func (a *app) interactive() bool {
	out, ok := a.out.(interface{ Fd() uintptr })
	return ok && xterm.IsTerminal(int(a.in.Fd())) && xterm.IsTerminal(int(out.Fd()))
}

// confirm asks a question on the terminal, which only y or yes answers.
func (a *app) confirm(question string) bool {
	a.line.Lock()
	defer a.line.Unlock()
	a.clearLine()
	if _, err := os.Stderr.WriteString(oneLine(question) + " [y/N] "); err != nil {
		return false
	}
	var answer []byte
	for key := make([]byte, 1); ; { // no more than the line: the rest is the command's
		if n, err := a.in.Read(key); err != nil || n == 0 || key[0] == '\n' {
			break
		}
		answer = append(answer, key[0])
	}
	return slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(string(answer))))
}

// format is how a command prints its result.
type format struct{ name string }

// add gives c the -o flag, with more words than table and json if there are any.
func (f *format) add(c *cobra.Command, more ...string) {
	f.name = "table"
	words := slices.Concat([]string{"table"}, more, []string{"json"})
	c.Flags().VarP(choice{&f.name, words}, "output", "o", "how to print the result")
}

// json says whether the result is to be JSON: --json means that too.
func (f format) json(a *app) bool { return f.name == "json" || a.json }

// show prints value as JSON where that is asked for, and else what text prints. A list that is
// empty is [], never null.
func (f format) show(a *app, value any, text func() error) error {
	if !f.json(a) {
		return text()
	}
	if list := reflect.ValueOf(value); list.Kind() == reflect.Slice && list.IsNil() {
		value = []struct{}{}
	}
	return term.JSON(a.out, value)
}
