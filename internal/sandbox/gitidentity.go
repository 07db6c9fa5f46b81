package sandbox

import (
	"context"
	"path/filepath"
	"strings"

	"forage/internal/hostexec"
	"forage/internal/workspace/gitrepo"
)

// gitIdentity is whose name is on commits that are made inside.
type gitIdentity struct {
	name, email string
}

// callersGit asks git whose name that is. Only the caller's global configuration is read: the
// workspace's could name programs to run.
func callersGit(ctx context.Context, caller Caller) gitIdentity {
	xdg := caller.configHome()
	if !exists(filepath.Join(caller.Home, ".gitconfig")) && !exists(filepath.Join(xdg, "git/config")) {
		return gitIdentity{} // nothing to ask git about
	}
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: []string{"git", "config", "--global", "--null", "--get-regexp", `^user\.(name|email)$`},
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
		}
	}
	return identity
}

// signing is the environment in which gpg and ssh-keygen find keys and ask for a passphrase.
var signing = [...]string{"GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// gitConfig is where the caller's git finds what holds in all repositories: git-config(1), "FILES".
// What a variable names comes on top of the rest, since another of the caller's shells may not have
// it.
func (c Caller) gitConfig() gitrepo.UserConfig {
	files := []string{"/etc/gitconfig", filepath.Join(c.configHome(), "git/config"), filepath.Join(c.Home, ".gitconfig")}
	env := []string{"HOME=" + c.Home, "XDG_CONFIG_HOME=" + c.configHome()}
	for _, name := range []string{"GIT_CONFIG_SYSTEM", "GIT_CONFIG_GLOBAL"} {
		if file, _ := c.Getenv(name); filepath.IsAbs(file) {
			files = append(files, file)
			env = append(env, name+"="+file)
		}
	}
	for _, name := range signing {
		if value, ok := c.Getenv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	search, _ := c.Getenv("PATH")
	for _, dir := range filepath.SplitList(search) { // one that isn't the distribution's has its own
		if file := filepath.Join(dir, "../etc/gitconfig"); filepath.IsAbs(dir) && exists(file) {
			files = append(files, file)
		}
	}
	return gitrepo.UserConfig{Home: c.Home, Files: files, Env: env}
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
