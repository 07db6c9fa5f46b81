package sandbox

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/supervisor"
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
	caller := p.service.Caller
	who := forage.Identity{User: forage.UserName, UID: caller.UID, GID: caller.GID, HostUID: caller.UID, HostGID: caller.GID, Home: forage.HomePath}
	if caller.UID == 0 {
		if name := p.service.Config.User; name != "" {
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
	if spec.Rootfs.Kind == "" {
		spec.Rootfs.Kind = forage.RootfsHost
	}
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

// gitConfig is the sandbox's system-wide git configuration, below which the agent can
// have its own: the name and mail of the flags, or the caller's own, for
// commits, and what the secrets need.
func (p *planner) gitConfig(ctx context.Context) error {
	own := p.git()
	p.jjConfig(ctx, own)
	identity := gitIdentity{name: cmp.Or(p.opts.GitUser, own.name), email: cmp.Or(p.opts.GitEmail, own.email)}
	if text := identity.config() + p.inside.Git; text != "" {
		p.plan.Spec.Files = append(p.plan.Spec.Files, forage.File{Path: "/etc/gitconfig", Content: []byte(text)})
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
func (s *Service) hostEnv(plan forage.Plan) (map[string]string, error) {
	values := make(map[string]string, len(plan.Spec.HostEnv))
	for _, name := range plan.Spec.HostEnv {
		value, ok := s.Caller.Getenv(name)
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
