package gitrepo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/workspace"
)

// Store is a bare repository of Forage's own: what a clone is on the host.
type Store struct {
	Path   string
	Branch string      // HEAD
	Format string      // of objects: "sha1" or "sha256"
	Origin string      // the URL or path that it is a clone of
	Source *Repository // the host's repository whose objects it borrows; nil for what is fetched
}

// CreateStore makes it. What it borrows from is not changed, and has no idea of it.
func CreateStore(ctx context.Context, s Store, scratch string) error {
	err := os.MkdirAll(filepath.Dir(s.Path), 0o700)
	if err == nil {
		err = os.Mkdir(s.Path, 0o700)
	}
	made := gitDir{head: "ref: " + branchRef(s.Branch), config: s.config()}
	if s.Source != nil && err == nil {
		var refs Refs
		refs, err = s.Source.Refs(ctx, scratch)
		made.refs = originRefs(refs)
		if head := "refs/remotes/origin/" + s.Source.Head; s.Source.Head != "" && made.refs.Values[head] != "" {
			made.refs.Symbolic["refs/remotes/origin/HEAD"] = head
		}
		made.borrows = []string{workspace.Resolved(filepath.Join(s.Source.Common, "objects"))}
		made.copies = map[string]string{"shallow": filepath.Join(s.Source.Common, "shallow")}
	}
	if err == nil {
		err = errors.Join(made.make(s.Path), os.Mkdir(filepath.Join(s.Path, "logs"), 0o700))
	}
	if err != nil {
		return fmt.Errorf("making the clone: %w", err)
	}
	return nil
}

func (s Store) config() string {
	c := configText{}
	if s.Source != nil {
		for _, key := range carried {
			if value := s.Source.last(key); value != "" && key != "core.sharedrepository" {
				c.add(key, value)
			}
		}
	}
	c.set("core.repositoryformatversion", "0")
	if s.Format != "sha1" {
		c.set("core.repositoryformatversion", "1")
		c.set("extensions.objectformat", s.Format)
	}
	c.add("core.bare", "true")
	c.add(storeKey, "true")
	c.add("core.logallrefupdates", "true")
	c.add("gc.auto", "0") // sandboxes read its objects
	c.add("remote.origin.url", publicURL(s.Origin))
	c.add("remote.origin.fetch", "+refs/heads/*:refs/remotes/origin/*")
	return c.String()
}

// originRefs are the refs of a repository as a clone of it has them.
func originRefs(refs Refs) Refs {
	cloned := Refs{Values: map[string]string{}, Symbolic: map[string]string{}}
	for _, name := range slices.AppendSeq(slices.Collect(maps.Keys(refs.Values)), maps.Keys(refs.Symbolic)) {
		as := name
		if branch, ok := strings.CutPrefix(name, branchRef("")); ok {
			as = "refs/remotes/origin/" + branch
		} else if !strings.HasPrefix(name, "refs/tags/") {
			continue
		}
		if id := refs.Resolve(name); id != "" {
			cloned.Values[as] = id
		}
	}
	return cloned
}

// Follow makes the refs of a clone's origin what they are in the source now, so that what has come
// to be there counts as saved.
func Follow(ctx context.Context, store, source *Repository, scratch string) (err error) {
	now, err := source.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	had, err := store.Refs(ctx, scratch)
	if err != nil {
		return err
	}
	var changes strings.Builder
	for name, id := range originRefs(now).Values {
		if had.Values[name] != id && strings.HasPrefix(name, "refs/remotes/origin/") && had.Symbolic[name] == "" {
			fmt.Fprintf(&changes, "update %s\x00%s\x00\x00", name, id)
		}
	}
	if changes.Len() == 0 {
		return nil
	}
	s, err := store.Shadow(scratch)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	_, err = s.Git(ctx, Call{Args: []string{"update-ref", "-z", "--stdin"}, Stdin: []byte(changes.String())})
	return err
}

// RemoveStore removes a store that CreateStore made.
// MoveStore moves a store aside, to a place where nothing is, or where an earlier call has moved
// it.
func MoveStore(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return fmt.Errorf("keeping the clone: %w", err)
	}
	if err := os.Rename(from, to); err != nil && (!gone(from) || gone(to)) {
		return fmt.Errorf("keeping the clone: %w", err)
	}
	return os.RemoveAll(filepath.Join(to, "worktrees"))
}

// Remote is a repository somewhere else, which is asked in the caller's name.
type Remote struct {
	URL string
	// Environ is what git sees of the caller's environment: for the caller's own configuration,
	// keys and proxies.
	Environ []string
}

// callersOwn are the variables of the caller's that git, ssh and credential helpers need to reach a
// repository.
var callersOwn = map[string]bool{
	"HOME": true, "XDG_CONFIG_HOME": true, "XDG_RUNTIME_DIR": true, "USER": true, "LOGNAME": true, "SSH_AUTH_SOCK": true, "GIT_SSL_CAINFO": true,
	"http_proxy": true, "https_proxy": true, "all_proxy": true, "no_proxy": true, "HTTPS_PROXY": true, "ALL_PROXY": true, "NO_PROXY": true,
	"SSL_CERT_FILE": true, "SSL_CERT_DIR": true, "DBUS_SESSION_BUS_ADDRESS": true,
}

// callersEnviron is what of an environment (KEY=VALUE) a Remote is given.
func callersEnviron(environ []string) []string {
	var kept []string
	for _, entry := range environ {
		if name, _, _ := strings.Cut(entry, "="); callersOwn[name] {
			kept = append(kept, entry)
		}
	}
	return kept
}

// protocols are those by which a repository may be fetched: never ext, which is a command line.
const protocols = "https:http:ssh:git:file"

// fetchSettings harden the one kind of git process that has the caller's own configuration: it has
// to reach a repository as the caller would.
var fetchSettings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "fetch.fsckObjects=true", "transfer.fsckObjects=true",
	// Old and harmless: much of what is on the great hosts has them.
	"fetch.fsck.zeroPaddedFilemode=ignore", "fetch.fsck.missingSpaceBeforeDate=ignore", "fetch.fsck.badTimezone=ignore",
	"gc.auto=0", "maintenance.auto=false", "fetch.recurseSubmodules=false", "fetch.writeCommitGraph=false", "core.askPass=false",
}

// git runs git with the caller's configuration; store is "" or a repository of Forage's.
func (m Remote) git(ctx context.Context, store string, timeout time.Duration, args ...string) (string, error) {
	argv := []string{"git"}
	for _, setting := range fetchSettings {
		argv = append(argv, "-c", setting)
	}
	env := append(callersEnviron(m.Environ),
		"GIT_ALLOW_PROTOCOL="+protocols, "GIT_TERMINAL_PROMPT=0", "GIT_ASKPASS=false", "SSH_ASKPASS=false", "SSH_ASKPASS_REQUIRE=force", "GIT_NO_REPLACE_OBJECTS=1",
		"GIT_CEILING_DIRECTORIES=/", "GIT_ADVICE=0", "GIT_PROTOCOL_FROM_USER=0")
	if store != "" {
		env = append(env, "GIT_DIR="+store)
	}
	out, err := hostexec.Run(ctx, hostexec.Command{Argv: append(argv, args...), Env: env, Timeout: timeout, Output: 64 << 20, Locks: store != ""})
	if err != nil {
		return "", forage.WithHint(
			fmt.Errorf("reaching %s: %w", publicURL(m.URL), gitError(err, out)),
			"see whether `git ls-remote "+publicURL(m.URL)+"` works on this host without asking for anything")
	}
	return string(out.Stdout), nil
}

// Start asks for the commit that a branch, a tag or (revision "") the remote's HEAD is at, and for
// the branch that HEAD is on. The commit is "" if the remote is empty.
func (m Remote) Start(ctx context.Context, revision string) (head, commit string, err error) {
	out, err := m.git(ctx, "", deadline.Answer, "ls-remote", "--symref", "--", m.URL)
	if err != nil {
		return "", "", err
	}
	ids := map[string]string{}
	for line := range strings.Lines(out) {
		id, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		if target, ok := strings.CutPrefix(id, "ref: refs/heads/"); ok && name == "HEAD" {
			head = target
		} else if isHex(id) {
			ids[name] = id
		}
	}
	if revision == "" {
		if commit = ids["HEAD"]; commit == "" && len(ids) > 0 {
			return "", "", forage.WithHint(forage.Errorf(forage.ErrUsage, "%s has no default branch", publicURL(m.URL)), "name one with --branch")
		}
		return head, commit, nil
	}
	for _, name := range [...]string{"refs/heads/" + revision, "refs/tags/" + revision + "^{}", "refs/tags/" + revision, revision} {
		if ids[name] != "" {
			return head, ids[name], nil
		}
	}
	if isHex(revision) {
		return head, revision, nil
	}
	return "", "", forage.WithHint(
		forage.Errorf(forage.ErrUsage, "%s has no branch or tag %q", publicURL(m.URL), revision), "see `git ls-remote "+publicURL(m.URL)+"`")
}

// Fetch brings all branches, as origin's, and all tags to a store of Forage's.
func (m Remote) Fetch(ctx context.Context, store string) error {
	_, err := m.git(ctx, store, time.Hour, "fetch", "--quiet", "--no-write-fetch-head", "--no-auto-maintenance", "--no-recurse-submodules",
		"--prune", "--", m.URL, "+refs/heads/*:refs/remotes/origin/*", "+refs/tags/*:refs/tags/*")
	return err
}

// CheckURL refuses an address that can't be fetched from safely, or that holds a secret.
func CheckURL(address string) error {
	scheme, rest, ok := strings.Cut(address, "://")
	helper, _, _ := strings.Cut(address, "[") // after which there is an address of IPv6
	if strings.HasPrefix(address, "-") || strings.Contains(helper, "::") {
		return forage.Errorf(forage.ErrRefused, "%q is no address: it would have git run a command", address)
	}
	if !ok {
		return nil // host:path
	}
	if !slices.Contains(strings.Split(protocols, ":"), scheme) {
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "repositories are not fetched by %q", scheme), "use https or ssh")
	}
	authority, _, _ := strings.Cut(rest, "/")
	if user, _, found := strings.Cut(authority, "@"); found && strings.Contains(user, ":") {
		return forage.WithHint(
			forage.Errorf(forage.ErrUsage, "the address has a password in it, which would be kept in the sandbox's record"),
			"leave it out, and let git's credential helper know it")
	}
	return nil
}
