package gitrepo

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// ignoredByHFS are the code points that HFS+ leaves out when it compares names, so that
// ".g\u200cit" is ".git" there: utf8.c of git, next_hfs_char.
const ignoredByHFS = "\u200c\u200d\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u206a\u206b\u206c\u206d\u206e\u206f\ufeff"

// UnsafePath says why no tree may have a file at path, which is relative and has slashes; "" for
// one that may. It is stricter than git on Linux: .git in any spelling that any file system takes
// for it, and jj's .jj.
func UnsafePath(path string) string {
	switch {
	case path == "":
		return "it has no name"
	case strings.HasPrefix(path, "/"):
		return "its path is absolute"
	case strings.ContainsRune(path, 0):
		return "its path has a zero byte"
	case len(path) >= 4096:
		return "its path is too long"
	}
	for part := range strings.SplitSeq(path, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "its path leads elsewhere"
		case len(part) > 255:
			return "its name is too long"
		case isDotGit(part):
			return "its path goes through .git"
		case strings.EqualFold(part, ".jj"):
			return "its path goes through .jj"
		}
	}
	return ""
}

// isDotGit says whether some file system takes name for .git.
func isDotGit(name string) bool {
	return slices.ContainsFunc(spellings(name), func(part string) bool { return part == ".git" || part == "git~1" })
}

// isChecked says whether git-fsck(1) may look into a file of that name: .gitmodules, .gitattributes
// and what some file system takes for one. NTFS has short names such as GITMOD~1 and GI7EBA~1.
func isChecked(name string) bool {
	return slices.ContainsFunc(spellings(name), func(part string) bool {
		return strings.HasPrefix(part, ".git") || strings.HasPrefix(part, "gi") && strings.Contains(part, "~")
	})
}

// spellings are what file systems may take name for, in small letters.
func spellings(name string) (parts []string) {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(ignoredByHFS, r) && r != utf8.RuneError {
			return -1
		}
		return r
	}, name)
	// NTFS: what follows a colon is a stream, and a backslash is a slash; Windows cuts dots and
	// spaces off the end.
	for part := range strings.SplitSeq(name, `\`) {
		part, _, _ = strings.Cut(part, ":")
		parts = append(parts, strings.ToLower(strings.TrimRight(part, ". ")))
	}
	return parts
}
