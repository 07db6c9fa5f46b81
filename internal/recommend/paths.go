package recommend

import (
	"slices"
	"strings"

	"forage"
	"forage/internal/policy"
)

// rulesFor are the rules that allow the requests that were seen, for a host
// that is written as text.
func rulesFor(text string, seen map[request]bool) []forage.Rule {
	if len(seen) == 0 {
		return nil
	}
	each := map[string]bool{} // matching its path and as little else as can be
	for r := range seen {
		each[globOf(text, r.path)] = true
	}
	globs := generalise(sorted(each))
	if len(globs) > maxPaths {
		return []forage.Rule{{Host: text, Methods: methodsOf(seen, nil)}}
	}
	// Of several globs that match a path the most special decides alone, so it has to have the
	// method.
	byMethods := map[string][]string{}
	for _, glob := range globs {
		match := matcher(text, glob)
		methods := methodsOf(seen, func(r request) bool { return match(r.path) })
		if len(methods) == 0 {
			continue // only matched what was meant in another way
		}
		key := strings.Join(methods, " ")
		byMethods[key] = append(byMethods[key], glob)
	}
	var rules []forage.Rule
	for methods, paths := range byMethods {
		slices.Sort(paths)
		rules = append(rules, forage.Rule{Host: text, Methods: strings.Fields(methods), Paths: paths})
	}
	slices.SortFunc(rules, compareRules)
	return rules
}

// methodsOf are the methods of those requests, sorted.
func methodsOf(seen map[request]bool, of func(request) bool) []string {
	methods := map[string]bool{}
	for r := range seen {
		if of == nil || of(r) {
			methods[r.method] = true
		}
	}
	return sorted(methods)
}

// matcher says of paths whether a glob matches them, as the policy does.
func matcher(text, glob string) func(path string) bool {
	p, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Rules: []forage.Rule{{Host: text, Paths: []string{glob}}}})
	r, authorityErr := policy.ParseAuthority(text, 443)
	at := place{r.Dest(), r.Port}
	return func(path string) bool {
		return err == nil && authorityErr == nil && policy.Decide(p, request{"GET", path}.at(at)).Verdict == policy.Allow
	}
}

// globOf is a glob for a path. A segment that can't be written in one, or that
// the recording cut off, becomes "*"; what servers may read in several ways makes the rest "**".
func globOf(text, path string) string {
	segments := strings.Split(strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/"), "/")
	if wasCut(path) {
		segments[len(segments)-1] = "**"
	}
	for i, s := range segments {
		if s != "**" && strings.ContainsAny(s, `%;\?#`) {
			segments[i] = "*"
		}
	}
	glob := "/" + strings.Join(segments, "/")
	if matcher(text, glob)(path) {
		return glob
	}
	for i, s := range segments {
		if s == "*" || s == "" || s == "." || s == ".." {
			return "/" + strings.Join(append(slices.Clone(segments[:i]), "**"), "/")
		}
	}
	return "/**"
}

// wasCut says whether the recording cut a path off (see audit.Event.Path).
func wasCut(path string) bool { return strings.HasSuffix(path, "...") && len(path) > 1000 }

// A segment in which so many values differ that no id is needed to see that it
// is one; of ids two are enough.
const manyValues = 5

// generalise puts "*" in the place of a segment in which several globs differ,
// that are the same otherwise, when its values look like ids or are many.
func generalise(globs []string) []string {
	for changed := true; changed; {
		changed = false
		for at := 0; ; at++ {
			next, longer := generaliseAt(globs, at)
			changed = changed || len(next) < len(globs)
			globs = next
			if !longer {
				break
			}
		}
	}
	return globs
}

// generaliseAt does so at one segment; longer says whether any glob has that many.
func generaliseAt(globs []string, at int) (next []string, longer bool) {
	groups := map[string][]string{} // by the glob with "*" there
	result := map[string]bool{}
	for _, glob := range globs {
		segments := strings.Split(glob[1:], "/")
		if at >= len(segments) {
			result[glob] = true
			continue
		}
		longer = true
		if segments[at] == "**" {
			result[glob] = true
			continue
		}
		segments[at] = "*"
		key := "/" + strings.Join(segments, "/")
		groups[key] = append(groups[key], glob)
	}
	for key, group := range groups {
		if varies(group, at) {
			result[key] = true
			continue
		}
		for _, glob := range group {
			result[glob] = true
		}
	}
	return sorted(result), longer
}

// varies says whether the values of a segment are examples of something.
func varies(globs []string, at int) bool {
	ids := 0
	for _, glob := range globs {
		value := strings.Split(glob[1:], "/")[at]
		if value == "*" && len(globs) > 1 {
			return true
		}
		version := strings.HasPrefix(value, "v") && len(value) <= 4
		if !version && strings.ContainsAny(value, "0123456789") { // the name of one thing among many
			ids++
		}
	}
	return len(globs) >= manyValues || len(globs) > 1 && ids == len(globs)
}
