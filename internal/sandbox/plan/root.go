package plan

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"hash/fnv"
	"maps"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/skills"
	"forage/internal/supervisor"
	"forage/internal/workspace/gitrepo"
	"forage/internal/workspace/jjrepo"
)

// For a caller who is root: who the agent is inside, and the range of user ids
// on the host, unused by people and by distributions' subordinate ids, that stands for it.
const (
	rootAgentID  = 1000
	rootHostBase = 0x6f000000
	rootHostSpan = 1 << 16
)

// identity is who the agent is: the caller, or, when root calls, the configured user or one who
// owns nothing on this host.
func (p *planner) identity(context.Context) error {
	caller := p.host.Caller
	who := forage.Identity{User: forage.UserName, UID: caller.UID, GID: caller.GID, HostUID: caller.UID, HostGID: caller.GID, Home: forage.HomePath}
	if caller.UID == 0 {
		if name := p.host.Config.User; name != "" {
			uid, gid, err := lookUser(name)
			if err != nil {
				return err
			}
			who.UID, who.GID, who.HostUID, who.HostGID = uid, gid, uid, gid
		} else {
			id := rootHost(p.plan.Name)
			who.UID, who.GID, who.HostUID, who.HostGID = rootAgentID, rootAgentID, id, id
		}
	}
	switch p.opts.IdentityMode {
	case "", "sandbox-user":
	case "host-user":
		if caller.UID != 0 {
			who.User = caller.User
		}
	default:
		return forage.Errorf(forage.ErrUsage, "identity mode %q is not sandbox-user or host-user", p.opts.IdentityMode)
	}
	p.plan.Spec.Identity = who
	return nil
}

// rootHost is who an agent of root's is on the host, by the name of its sandbox.
func rootHost(name string) int {
	hash := fnv.New32a()
	hash.Write([]byte(name))
	return rootHostBase + int(hash.Sum32()%rootHostSpan)
}

// rootfs adds what the sandbox sees of the host's system, or the image.
func (p *planner) rootfs(context.Context) error {
	spec := &p.plan.Spec
	spec.Rootfs = p.chosen.Rootfs
	if p.opts.Image != "" {
		if err := p.image(); err != nil {
			return err
		}
	}
	spec.Rootfs.Kind = cmp.Or(spec.Rootfs.Kind, forage.RootfsHost)
	if spec.Rootfs.Kind != forage.RootfsHost {
		spec.Files = rootfs.Generated(p.plan.Name, spec.Identity, "/bin/sh")
		return nil
	}
	view, err := rootfs.Host(os.DirFS("/"), p.plan.Name, spec.Identity)
	if err != nil {
		return err
	}
	spec.Mounts, spec.Links, spec.Files = view.Mounts, view.Links, view.Files
	return nil
}

// image is the root filesystem of the flag.
func (p *planner) image() error {
	kind, ref, prefixed := strings.Cut(p.opts.Image, ":")
	switch kind := forage.RootfsKind(kind); {
	case prefixed && (kind == forage.RootfsDir || kind == forage.RootfsOCI):
		path, err := p.host.Caller.Abs(ref)
		p.plan.Spec.Rootfs = forage.Rootfs{Kind: kind, Ref: path}
		return err
	case prefixed && kind == forage.RootfsImage:
		p.plan.Spec.Rootfs = forage.Rootfs{Kind: kind, Ref: ref}
	default:
		p.plan.Spec.Rootfs = forage.Rootfs{Kind: forage.RootfsImage, Ref: p.opts.Image}
	}
	return nil
}

// environment is what every sandbox has, the template's variables and the flags'.
func (p *planner) environment(context.Context) error {
	spec := &p.plan.Spec
	shell, bundle := "/bin/sh", ""
	if spec.Rootfs.Kind == forage.RootfsHost {
		shell, bundle = rootfs.Shell(os.DirFS("/")), rootfs.SystemBundle(os.DirFS("/"))
	}
	if p.plan.Facts.UpstreamCA != "" || supervisor.Intercepts(p.plan) {
		bundle = rootfs.BundlePath
	}
	spec.Env = rootfs.Environment(p.plan.Name, spec.Identity, shell, append(slices.Clone(p.inside.Path), p.toolDirs...), bundle)
	if slices.ContainsFunc(spec.Mounts, func(m forage.Mount) bool { return m.Writable && !m.Volume && rootfs.Within(m.Target, "/tmp") }) {
		spec.Env["TMUX_TMPDIR"] = "/run" // there are no sockets in /tmp then: they could be in the user's folder
	}
	maps.Copy(spec.Env, p.toolEnv)
	maps.Copy(spec.Env, p.inside.Env)
	for _, set := range p.sets {
		maps.Copy(spec.Env, set.Env)
		spec.Files = append(spec.Files, set.Files...)
	}
	maps.Copy(spec.Env, p.chosen.Env)
	for _, entry := range p.opts.Env {
		name, value, given := strings.Cut(entry, "=")
		if !validVariable(name) {
			return forage.WithHint(forage.Errorf(forage.ErrUsage, "--env %q is not a variable", entry), "write K=V, or K to pass on yours")
		}
		at := slices.Index(spec.HostEnv, name)
		switch { // the last one counts
		case given && at >= 0:
			spec.HostEnv = slices.Delete(spec.HostEnv, at, at+1)
			spec.Env[name] = value
		case given:
			spec.Env[name] = value
		case at < 0:
			spec.HostEnv = append(spec.HostEnv, name)
			delete(spec.Env, name)
		}
	}
	return nil
}

// gitConfig is the sandbox's system-wide configuration of git and jj, below which the agent can
// have its own: the name and mail of the flags, or the caller's own, for commits, and what the
// secrets need. jj doesn't ask git.
func (p *planner) gitConfig(ctx context.Context) error {
	own := p.git()
	add := func(path, text string) {
		p.plan.Spec.Files = append(p.plan.Spec.Files, forage.File{Path: path, Content: []byte(text)})
	}
	if p.usesJJ() {
		name, email := jjrepo.Identity(ctx, p.host.Caller.Home, p.host.Caller.configHome())
		text := "[user]\n"
		for _, field := range []struct{ key, value string }{
			{"name", cmp.Or(p.opts.GitUser, name, own.Name)}, {"email", cmp.Or(p.opts.GitEmail, email, own.Email)},
		} {
			if quoted, err := json.Marshal(field.value); err == nil && field.value != "" { // TOML's strings have these escapes too
				text += field.key + " = " + string(quoted) + "\n"
			}
		}
		add("/etc/jj/config.toml", text)
	}
	identity := GitIdentity{Name: cmp.Or(p.opts.GitUser, own.Name), Email: cmp.Or(p.opts.GitEmail, own.Email)}
	if text := identity.config() + p.inside.Git; text != "" {
		add("/etc/gitconfig", text)
	}
	return nil
}

// validVariable says whether name can be a variable's: POSIX, Base
// Definitions, chapter 8.
func validVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// hostEnv are the values of the variables that the plan takes from the caller.
func (h *Host) HostEnv(plan forage.Plan) (map[string]string, error) {
	values := make(map[string]string, len(plan.Spec.HostEnv))
	for _, name := range plan.Spec.HostEnv {
		value, ok := h.Caller.Getenv(name)
		if !ok {
			return nil, forage.WithHint(
				forage.Errorf(forage.ErrUsage, "%s is not set in your environment, and the sandbox was to have it", name),
				"set it, or give a value with --env "+name+"=VALUE")
		}
		values[name] = value
	}
	return values, nil
}

// lookUser is the configured user's ids.
func lookUser(name string) (uid, gid int, err error) {
	account, err := user.Lookup(name)
	if err != nil {
		return 0, 0, forage.Errorf(forage.ErrUsage, "user %q of the configuration: %w", name, err)
	}
	uid, uidErr := strconv.Atoi(account.Uid)
	gid, gidErr := strconv.Atoi(account.Gid)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return 0, 0, err
	}
	if uid == 0 || gid == 0 {
		return 0, 0, forage.Errorf(forage.ErrUsage, "user %q of the configuration is root: agents never are", name)
	}
	return uid, gid, nil
}

// GitIdentity is whose name is on commits that are made inside.
type GitIdentity struct {
	Name, Email string
}

// CallersGit finds whose name that is. Only the caller's global configuration is read: the
// workspace's could name programs to run.
func CallersGit(ctx context.Context, caller Caller) (identity GitIdentity) {
	for _, file := range []string{filepath.Join(caller.configHome(), "git/config"), filepath.Join(caller.Home, ".gitconfig")} {
		config, err := gitrepo.ReadConfig(ctx, file)
		if err != nil {
			return GitIdentity{} // commits inside then ask for it
		}
		for _, name := range config["user.name"] {
			identity.Name = name
		}
		for _, email := range config["user.email"] {
			identity.Email = email
		}
	}
	return identity
}

// signing is the environment in which gpg and ssh-keygen find keys and ask for a passphrase.
var signing = [...]string{"GNUPGHOME", "GPG_TTY", "SSH_AUTH_SOCK", "DISPLAY", "WAYLAND_DISPLAY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"}

// gitConfig is where the caller's git finds what holds in all repositories: git-config(1), "FILES".
// What a variable names comes on top of the rest, since another of the caller's shells may not have
// it.
func (c Caller) GitConfig() gitrepo.UserConfig {
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
		if file := filepath.Join(dir, "../etc/gitconfig"); filepath.IsAbs(dir) && Exists(file) {
			files = append(files, file)
		}
	}
	return gitrepo.UserConfig{Home: c.Home, Files: files, Env: env}
}

// config is the identity as a part of git's configuration; "" when nothing is known.
func (g GitIdentity) config() string {
	if g.Name == "" && g.Email == "" {
		return ""
	}
	var b strings.Builder
	b.WriteString("[user]\n")
	for _, field := range []struct{ key, value string }{{"name", g.Name}, {"email", g.Email}} {
		if field.value != "" {
			b.WriteString("\t" + field.key + " = " + gitrepo.Quote(field.value) + "\n")
		}
	}
	return b.String()
}

// usesJJ says whether a part of the workspace is worked on with jj.
func (p *planner) usesJJ() bool {
	return slices.ContainsFunc(p.plan.Workspaces(), func(w forage.Workspace) bool { return jjrepo.Has(w.Repository) })
}

// skills says where agents find what they are told of the sandbox. It is written when the sandbox
// starts. A run of a command that is no known agent is told nothing, unless the template asks for
// it.
func (p *planner) skills(context.Context) error {
	if len(p.known) == 0 && !p.plan.Spec.Session && p.chosen.Skills == (forage.Skills{}) {
		return nil
	}
	home := p.plan.Spec.Identity.Home
	files := []string{path.Join(home, ".claude", skills.Name)}
	for _, k := range p.known {
		for _, file := range k.known.Instructions {
			rest, own := strings.CutPrefix(file, k.known.Config.Inside+"/")
			if own && k.ContainerConfigDir != "" {
				file = path.Join(k.ContainerConfigDir, rest)
			} else if rest, ok := strings.CutPrefix(file, "~/"); ok {
				file = path.Join(home, rest)
			}
			if !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	// What the user mounts there counts.
	files = slices.DeleteFunc(files, func(file string) bool { return p.mountOver(file) != "" })
	p.plan.Skills = forage.Instructions{Skills: p.chosen.Skills, Files: files, Own: p.host.skills}
	return nil
}
