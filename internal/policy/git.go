package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"forage"
)

// Parts of git's smart HTTP protocol (gitprotocol-http(5)).
const (
	gitRefs    = "info/refs"
	gitUpload  = "git-upload-pack"  // fetching
	gitReceive = "git-receive-pack" // pushing
)

// gitRepo is one glob over repositories of a rule about git.
type gitRepo struct {
	repo *glob
	rule forage.GitRule
}

// parseRepo reads a glob over repositories' paths, without a slash in front and ".git" behind.
func parseRepo(text string) (*glob, error) {
	switch {
	case text == "":
		return nil, errors.New("expected a repository, such as OWNER/NAME")
	case strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/"):
		return nil, fmt.Errorf("%.80q: expected a repository without / at either end, such as OWNER/NAME", text)
	case strings.HasSuffix(text, ".git"):
		return nil, fmt.Errorf("%.80q: expected a repository without .git, which matches both", text)
	case strings.Contains(text, "://") || strings.Contains(text, "@"):
		return nil, fmt.Errorf("%.80q: expected the path of a repository, such as OWNER/NAME, not an address", text)
	}
	return parseGlob("/" + text)
}

// parseRef reads a glob over refs, below refs/heads/ unless it begins with "refs/".
func parseRef(text string) (*glob, error) {
	switch {
	case text == "":
		return nil, errors.New("expected a branch, such as agent/*")
	case strings.HasPrefix(text, "/") || strings.HasSuffix(text, "/"):
		return nil, fmt.Errorf("%.80q: expected a branch without / at either end, such as agent/*", text)
	case strings.HasPrefix(text, "+") || strings.Contains(text, ":"):
		return nil, fmt.Errorf("%.80q: expected a name, not a refspec", text)
	}
	if !strings.HasPrefix(text, "refs/") {
		text = "refs/heads/" + text
	}
	if strings.HasSuffix(text, "/**") {
		text += "/*" // below, not the ref itself
	}
	g, err := parseGlob("/" + text)
	if err == nil && !IsRef(strings.ReplaceAll(text, "*", "x")) {
		err = fmt.Errorf("%.80q is not a name that git gives to refs", text)
	}
	return g, err
}

// AllowsRef says whether a push by that rule may create or move a ref. A name
// that git itself would not give (git-check-ref-format(1)) is never allowed.
func AllowsRef(rule forage.GitRule, ref string) bool {
	if !IsRef(ref) {
		return false
	}
	path := segments(ref)
	for _, text := range rule.Push {
		if g, err := parseRef(text); err == nil && g.match(path) {
			return true
		}
	}
	return false
}

// IsRef says whether ref is a full name by git-check-ref-format(1), with something below a kind
// (refs/heads/main), that no terminal acts on and no program takes for an option.
func IsRef(ref string) bool {
	parts := strings.Split(ref, "/")
	if len(ref) > maxGlob || !utf8.ValidString(ref) || len(parts) < 3 || parts[0] != "refs" || strings.HasSuffix(ref, ".") ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") {
		return false
	}
	if strings.ContainsFunc(ref, func(c rune) bool {
		return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.IsSpace(c) || strings.ContainsRune(`~^:?*[\`, c)
	}) {
		return false
	}
	for _, part := range parts {
		if part == "" || part == "@" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}

// rank is that of the rule for one of git's requests to its repositories.
func (g gitRepo) rank(service string) globRank {
	rank := g.repo.rank
	rank.whole += strings.Count(service, "/") + 1
	return rank
}

// match says whether path is that of one of git's requests to such a repository.
func (g gitRepo) match(path []string) (globRank, bool) {
	repo, service, ok := splitGit(path)
	if !ok || !g.repo.match(repo) {
		return globRank{}, false
	}
	return g.rank(service), true
}

// gitRank is the rank of the rules about git that decide about a request of
// git's: those that are the most special for its repository. ok is false for any other request.
func gitRank(path []string, allows []candidate) (at globRank, ok bool) {
	for _, c := range allows {
		for _, repo := range c.git {
			if rank, matches := repo.match(path); matches && (!ok || rank.compare(at) > 0) {
				at, ok = rank, true
			}
		}
	}
	return at, ok
}

// allowsGit says whether r is a request of git's that the rule allows at that rank.
func (r *rule) allowsGit(asked Request, path []string, at globRank) bool {
	return slices.ContainsFunc(r.git, func(repo gitRepo) bool {
		rank, ok := repo.match(path)
		return ok && rank == at && repo.allows(asked, path)
	})
}

// splitGit takes the path of one of git's requests apart: the repository
// without ".git", and what is asked of it.
func splitGit(path []string) (repo []string, service string, ok bool) {
	n := len(path)
	switch {
	case n > 2 && path[n-2]+"/"+path[n-1] == gitRefs:
		repo, service = path[:n-2], gitRefs
	case n > 1 && (path[n-1] == gitUpload || path[n-1] == gitReceive):
		repo, service = path[:n-1], path[n-1]
	default:
		return nil, "", false
	}
	last := len(repo) - 1
	name, isGit := strings.CutSuffix(repo[last], ".git")
	if isGit && name != "" {
		repo = append(repo[:last:last], name)
	}
	return repo, service, true
}

func isPush(path []string) bool {
	_, service, ok := splitGit(path)
	return ok && service == gitReceive
}

// allows says whether r, with that path, is a request that the rule allows. The
// query has to be the one that git sends, to the letter. What git does besides over HTTP
// (the "dumb" protocol, LFS) is for rules with paths.
func (g gitRepo) allows(r Request, path []string) bool {
	_, service, _ := splitGit(path)
	push := len(g.rule.Push) > 0
	switch {
	case service == gitRefs && r.Method == "GET":
		return r.Query == "service="+gitUpload || (r.Query == "service="+gitReceive && push)
	case service == gitUpload && r.Method == "POST":
		return r.Query == ""
	case service == gitReceive && r.Method == "POST":
		return r.Query == "" && push
	}
	return false
}

// pushOf is what all the rules of one rank together let be pushed.
func pushOf(r Request, path []string, rank globRank, allows []candidate) *forage.GitRule {
	var push forage.GitRule
	for _, c := range allows {
		for _, repo := range c.git {
			if found, ok := repo.match(path); ok && found == rank && repo.allows(r, path) {
				push.Repos = append(push.Repos, repo.rule.Repos...)
				push.Push = append(push.Push, repo.rule.Push...)
			}
		}
	}
	slices.Sort(push.Repos)
	slices.Sort(push.Push)
	push.Repos, push.Push = slices.Compact(push.Repos), slices.Compact(push.Push)
	return &push
}
