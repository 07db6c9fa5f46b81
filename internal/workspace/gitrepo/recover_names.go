package gitrepo

import (
	"fmt"
	"slices"
	"strings"
)

// maxKeptName bounds a part of the name of a recovery ref, in bytes: NAME_MAX, less what git appends.
const maxKeptName = 200

// keptNames are the names of recovery refs that were given, below what they all begin with.
type keptNames []string

// give is a name for what a ref inside holds: its own, without refs/, or one that is made of it where its own is no name for a person to
// paste into a shell, which is what they are told to do, or no ref beside those that are there.
func (given *keptNames) give(ref, id string) string {
	name := strings.TrimPrefix(ref, "refs/")
	if !plainName.MatchString(name) || given.collides(name) || slices.ContainsFunc(strings.Split(name, "/"), tooLong) {
		plain := strings.Map(func(r rune) rune {
			if r < 0x80 && plainName.MatchString(string(r)) {
				return r
			}
			return '-'
		}, name)
		base := fmt.Sprintf("%.*s-%.12s", maxKeptName, plain, id)
		name = base
		for n := 2; given.collides(name); n++ {
			name = fmt.Sprintf("%s-%d", base, n)
		}
	}
	*given = append(*given, name)
	return name
}

func tooLong(part string) bool { return len(part) > maxKeptName }

// collides says whether git can't have both a ref of that name and those that were given: x and x/y exclude one another.
func (given keptNames) collides(name string) bool {
	return slices.ContainsFunc(given, func(other string) bool {
		return other == name || strings.HasPrefix(other, name+"/") || strings.HasPrefix(name, other+"/")
	})
}
