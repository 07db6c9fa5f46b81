package gitproto

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"forage"
	"forage/internal/policy"
	"forage/internal/term"
)

// judge refuses what can be refused before the pack is seen.
func (r *request) judge(rule forage.GitRule) error {
	reasons := make(map[int]string)
	seen := make(map[string]bool)
	hint := false
	for i, c := range r.commands {
		switch {
		case r.options:
			reasons[i] = "push options (git push -o) are not allowed: a server acts on them"
		case !validRef(c.ref):
			reasons[i] = "not a name that git allows for a ref"
		case seen[c.ref]:
			reasons[i] = "named twice in one push"
		case !policy.AllowsRef(rule, c.ref):
			reasons[i], hint = "not among the refs that this sandbox may push to", true
		case c.deletes():
			reasons[i] = "this sandbox may not delete refs"
		}
		seen[c.ref] = true
	}
	if len(reasons) == 0 {
		return nil
	}
	refusal := r.refuse("", reasons)
	if hint {
		refusal.hint = allowed(rule)
	}
	return refusal
}

// judgeCommits refuses refs that the pack doesn't show to move forward.
func (r *request) judgeCommits(commits *commits) error {
	reasons := make(map[int]string)
	steps := maxSteps
	for i, c := range r.commands {
		if !c.moves() {
			continue
		}
		switch {
		case !commits.has(c.new):
			reasons[i] = fmt.Sprintf("%s is not a commit of this push, so nothing shows that it follows from %s; push it as a new branch", c.new, c.old)
		case !commits.leads(c.new, c.old, r.shallow, &steps):
			reasons[i] = fmt.Sprintf("not a fast-forward: the pushed commits don't lead from %s to %s", c.old, c.new)
			if steps < 0 {
				reasons[i] = "too many commits to be judged at once"
			}
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return r.refuse("", reasons)
}

// allowed is what may be pushed to, in words.
func allowed(rule forage.GitRule) string {
	if len(rule.Push) == 0 {
		return "this sandbox may not push to this repository"
	}
	return "this sandbox may push to " + term.Escape(strings.Join(rule.Push, ", "))
}

// validRef says whether a ref's name is one as git-check-ref-format(1) has
// it, below refs/, and with no part that a program could take for an option.
func validRef(ref string) bool {
	rest, ok := strings.CutPrefix(ref, "refs/")
	if !ok || !utf8.ValidString(ref) || len(ref) > 1024 ||
		strings.Contains(ref, "..") || strings.Contains(ref, "@{") || strings.HasSuffix(ref, ".") {
		return false
	}
	if strings.ContainsFunc(ref, func(c rune) bool {
		return unicode.IsControl(c) || unicode.Is(unicode.Cf, c) || unicode.IsSpace(c) || strings.ContainsRune(`~^:?*[\`, c)
	}) {
		return false
	}
	for part := range strings.SplitSeq(rest, "/") {
		if part == "" || part == "@" || part[0] == '.' || part[0] == '-' || strings.HasSuffix(part, ".lock") {
			return false
		}
	}
	return true
}
