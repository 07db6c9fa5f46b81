package recommend

import "strings"

// What git asks for over HTTP (gitprotocol-http(5)).
const (
	gitRefs  = "info/refs"
	gitFetch = "git-upload-pack"
	gitPush  = "git-receive-pack"
)

// gitSeen are repositories, as rules name them.
type gitSeen struct {
	repos  map[string]bool
	pushed map[string]bool
}

// splitGit takes git's requests out of what was seen.
func splitGit(seen map[request]bool) (git gitSeen, others map[request]bool) {
	git = gitSeen{repos: map[string]bool{}, pushed: map[string]bool{}}
	others = map[request]bool{}
	for r := range seen {
		repo, service, ok := gitRequest(r)
		switch {
		case !ok:
			others[r] = true
		case service == gitPush:
			git.pushed[repo] = true
			git.repos[repo] = true // a push has to read what is there
		default:
			git.repos[repo] = true
		}
	}
	return git, others
}

// gitRequest says which repository a request is about, if it is one of git's own.
func gitRequest(r request) (repo, service string, ok bool) {
	for _, one := range []struct{ method, service string }{{"GET", gitRefs}, {"POST", gitFetch}, {"POST", gitPush}} {
		repo, found := strings.CutSuffix(r.path, "/"+one.service)
		if !found || r.method != one.method {
			continue
		}
		repo = strings.TrimSuffix(strings.TrimPrefix(repo, "/"), ".git")
		if repo == "" || strings.Trim(repo, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./") != "" {
			return "", "", false
		}
		return repo, one.service, true
	}
	return "", "", false
}
