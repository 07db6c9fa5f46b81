package autorun

import (
	"path"
	"strings"
)

// lookupPath finds the rule for a path by its name, or by a folder that it is in.
func lookupPath(file string) (rule, bool) {
	parts := strings.Split(file, "/")
	parent := ""
	for _, part := range parts[:len(parts)-1] {
		if why, ok := metadata(part); ok {
			return rule{KindRepository, why}, true
		}
		if r, ok := lookup(parent, part, true); ok {
			return r, true
		}
		parent = part
	}
	name := parts[len(parts)-1]
	if why, ok := metadata(name); ok {
		return rule{KindRepository, why}, true
	}
	return lookupFile(parent, name)
}

// lookupFile finds the rule for a file or a link, which may be in the place of a folder that has one.
func lookupFile(parent, name string) (rule, bool) {
	if r, ok := lookup(parent, name, false); ok {
		return r, true
	}
	return lookup(parent, name, true)
}

// metadata says whether a name is that of a repository's own folder, or is one to a file system that folds names.
func metadata(name string) (why string, ok bool) {
	switch folded := fold(name); {
	case name == ".git":
		return "git executes what its configuration and hooks say, on git status too", true
	case folded == ".git", folded == "git~1":
		return "a file system that folds names takes it for .git, and git executes what its configuration and hooks say", true
	case folded == ".jj":
		return "jj takes its configuration from it, on jj status too", true
	case folded == ".pijul":
		return "Pijul executes the hooks in its configuration, on pijul record", true
	case folded == ".hg", folded == ".sl":
		return "Mercurial and Sapling execute its hooks and extensions, on hg status too", true
	}
	return "", false
}

// fold reads a name as file systems do that are not case-sensitive: HFS+ ignores some code points (git's
// utf8.c, next_hfs_char), NTFS what follows a colon and dots and spaces at the end (git's path.c, is_ntfs_dotgit).
func fold(name string) string {
	if i := strings.LastIndexByte(name, '\\'); i >= 0 {
		name = name[i+1:] // a folder's separator there
	}
	if i := strings.IndexByte(name, ':'); i > 0 {
		name = name[:i]
	}
	name = strings.Map(func(r rune) rune {
		switch {
		case 0x200c <= r && r <= 0x200f, 0x202a <= r && r <= 0x202e, 0x206a <= r && r <= 0x206f, r == 0xfeff:
			return -1
		case r == 'ı', r == 'İ': // a lower or upper case i somewhere
			return 'i'
		}
		return r
	}, name)
	return strings.ToLower(strings.TrimRight(name, ". "))
}

// leaves says whether a symbolic link at file with that target leads out of the tree, by its text. What it
// is through other links only the file system knows.
func leaves(file, target string) bool {
	if target == "" || strings.HasPrefix(target, "/") {
		return true
	}
	to := path.Join(path.Dir(file), target)
	return to == ".." || strings.HasPrefix(to, "../")
}

// Git's file modes.
const (
	modeType       = 0o170000
	modeLink       = 0o120000
	modeGitlink    = 0o160000
	modeExecutable = 0o111
)

// Classify says what a file of a diff would be to tools of the host; ok is false for an ordinary file. newMode is
// its git mode after the change, oldMode before (0: not there), target a symbolic link's.
func Classify(file string, oldMode, newMode uint32, target string) (f Finding, ok bool) {
	if newMode == 0 { // nothing is left to be executed
		return Finding{}, false
	}
	if newMode&modeType == modeGitlink {
		return Finding{file, KindSubmodule, "git submodule clones it, and git executes what its configuration says from then on"}, true
	}
	if r, found := lookupPath(file); found {
		return Finding{file, r.kind, r.why}, true
	}
	switch {
	case newMode&modeType == modeLink && leaves(file, target):
		return Finding{file, KindLink, whyLink(target)}, true
	case newMode&modeType != modeLink && newMode&modeExecutable != 0 && oldMode&modeExecutable == 0:
		return Finding{file, KindExecutable, whyExecutable}, true
	}
	return Finding{}, false
}

const whyExecutable = "it is executable, and was not before"

func whyLink(target string) string {
	return "it leads out of the workspace, to " + target + ": who reads or writes through it does so there"
}
