package gitrepo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/hostexec"
)

// Remote is a repository somewhere else, which is asked in the caller's name.
type Remote struct {
	URL string
	// Environ is what git sees of the caller's environment: for the caller's own configuration, keys and proxies.
	Environ []string
}

// callersOwn are the variables of the caller's that git, ssh and credential helpers need to reach a repository.
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

// fetchSettings harden the one kind of git process that has the caller's own configuration: it has to reach a
// repository as the caller would.
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

// Start asks for the commit that a branch, a tag or (revision "") the remote's HEAD is at, and for the branch that HEAD is on. The
// commit is "" if the remote is empty.
func (m Remote) Start(ctx context.Context, revision string) (head, commit string, err error) {
	out, err := m.git(ctx, "", time.Minute, "ls-remote", "--symref", "--", m.URL)
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
