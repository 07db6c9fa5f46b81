package sandbox

import (
	"context"
	"path/filepath"
	"strings"

	"forage/internal/hostexec"
	"forage/internal/workspace/gitrepo"
)

// gitIdentity is what the caller's own configuration of git says: whose name is on commits that are made
// inside, and where git on the host looks for hooks.
type gitIdentity struct {
	name, email, hooks string
}

// callersGit asks git for it. Only the caller's global configuration is read: the workspace's could name programs to run.
func callersGit(ctx context.Context, caller Caller) gitIdentity {
	xdg := caller.configHome()
	if !exists(filepath.Join(caller.Home, ".gitconfig")) && !exists(filepath.Join(xdg, "git/config")) {
		return gitIdentity{} // nothing to ask git about
	}
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: []string{"git", "config", "--global", "--null", "--get-regexp", `^(user\.(name|email)|core\.hookspath)$`},
		Env:  []string{"HOME=" + caller.Home, "XDG_CONFIG_HOME=" + xdg},
	})
	if err != nil {
		return gitIdentity{} // no git, or nothing configured: commits inside then ask for it
	}
	var identity gitIdentity
	for _, entry := range strings.Split(string(out.Stdout), "\x00") {
		switch key, value, _ := strings.Cut(entry, "\n"); key {
		case "user.name":
			identity.name = value
		case "user.email":
			identity.email = value
		case "core.hookspath":
			identity.hooks = value
		}
	}
	return identity
}

// config is the identity as a part of git's configuration; "" when nothing is known.
func (g gitIdentity) config() string {
	if g.name == "" && g.email == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("[user]\n")
	for _, field := range []struct{ key, value string }{{"name", g.name}, {"email", g.email}} {
		if field.value != "" {
			b.WriteString("\t" + field.key + " = " + gitrepo.Quote(field.value) + "\n")
		}
	}
	return b.String()
}
