package gitrepo

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
)

// carriedInside are the settings that private metadata takes from the host's repository beside those of a shadow:
// what makes git behave as its user is used to. Whatever they do, they do it inside; but some settings hold
// secrets, so it is a list of what is known not to.
var carriedInside = [...]string{
	"core.sparsecheckout", "core.sparsecheckoutcone", "index.sparse", "core.commentchar", "core.quotepath",
	"user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email",
	"push.default", "push.autosetupremote", "push.followtags", "pull.rebase", "pull.ff", "merge.ff", "merge.conflictstyle",
	"rebase.autosquash", "rebase.autostash", "rebase.updaterefs", "rerere.enabled", "fetch.prune", "remote.pushdefault",
	"branch.autosetupmerge", "branch.autosetuprebase", "diff.algorithm", "diff.renames", "commit.cleanup",
	"i18n.commitencoding", "i18n.logoutputencoding",
}

// carriedBy are settings with a subsection: by section, the names.
var carriedBy = map[string][]string{
	"remote":    {"url", "pushurl", "fetch", "push", "tagopt", "prune", "mirror"},
	"branch":    {"remote", "merge", "pushremote", "rebase", "description"},
	"submodule": {"url", "branch", "active", "ignore"},
}

// privateConfig is the whole configuration of private metadata. host is where the user's branches are shown inside; "" is nowhere.
func (r *Repository) privateConfig(remotes bool, host string) string {
	c := configText{}
	c.add("core.repositoryformatversion", "0")
	if r.ObjectFormat != "sha1" {
		c.set("core.repositoryformatversion", "1")
		c.add("extensions.objectformat", r.ObjectFormat)
	}
	c.add("core.bare", "false")
	c.add("core.logallrefupdates", "true")
	if os.Geteuid() == 0 {
		// The agent is somebody else then, and what it sees of its files' owners is mapped: they look changed to git.
		c.add("core.checkstat", "minimal")
	}
	for _, key := range slices.Concat(carried[:], carriedInside[:]) {
		switch key {
		case "core.repositoryformatversion", "extensions.objectformat", "extensions.refstorage", "core.sharedrepository":
			continue // of the host's own files
		}
		if value := r.last(key); value != "" && c[key] == nil {
			c.add(key, value)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(r.Config)) {
		section, rest, _ := strings.Cut(key, ".")
		dot := strings.LastIndexByte(rest, '.')
		if dot < 0 || !slices.Contains(carriedBy[section], rest[dot+1:]) || section == "remote" && !remotes {
			continue
		}
		for _, value := range r.Config[key] {
			if strings.HasSuffix(key, "url") {
				value = publicURL(value)
			}
			if value != "" {
				c.add(key, value)
			}
		}
	}
	if host != "" && r.last("remote."+hostRemote+".url") == "" { // else the user has a remote of that name
		c.add("remote."+hostRemote+".url", host)
		c.add("remote."+hostRemote+".fetch", "+refs/heads/*:refs/remotes/"+hostRemote+"/*")
		c.add("remote."+hostRemote+".tagopt", "--no-tags")
		c.add("remote."+hostRemote+".prune", "true")
	}
	return c.String()
}

// publicURL is an address without what may be secret in it; "" for one of which that is not known: a command, or
// the address of a helper.
func publicURL(address string) string {
	before, _, named := strings.Cut(address, "@")
	whole := strings.Contains(address, "://")
	if strings.Contains(address, "::") || !whole && named && strings.Contains(before, ":") {
		return ""
	}
	if !whole {
		return address // a path, or user@host:path, which has no place for a password
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	name := u.User.Username()
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	if strings.Contains(u.Scheme, "ssh") && name != "" {
		u.User = url.User(name) // with others, a token may be in the place of the name
	}
	return u.String()
}

// configText is a configuration that is being written: key to values.
type configText map[string][]string

func (c configText) add(key, value string) { c[key] = append(c[key], value) }
func (c configText) set(key, value string) { c[key] = []string{value} }

// String is the configuration in the syntax of git-config(1).
func (c configText) String() string {
	var b strings.Builder
	for _, key := range slices.Sorted(maps.Keys(c)) {
		section, rest, _ := strings.Cut(key, ".")
		name := rest
		if dot := strings.LastIndexByte(rest, '.'); dot >= 0 {
			name = rest[dot+1:]
			section += " " + quoteSubsection(rest[:dot])
		}
		for _, value := range c[key] {
			fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, Quote(value))
		}
	}
	return b.String()
}

func quoteSubsection(name string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", "", "\x00", "").Replace(name) + `"`
}
