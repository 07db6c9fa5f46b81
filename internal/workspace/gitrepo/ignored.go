package gitrepo

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// newRule is why a file is left out that the user's rules don't ignore, but a .gitignore that is new.
const newRule = "ignored only by a rule that is new"

// Rules are the commits whose .gitignore files are the user's: where the work started, what was taken over of it, and HEAD. None: all
// that is in the folder counts. "" has no such files.
func (s *Shadow) Rules(ctx context.Context, w forage.Workspace) []string {
	if !hasTree(w) {
		return nil
	}
	rules := []string{w.Base}
	if commit, _, err := Taken(w); err == nil && commit != "" {
		rules = append(rules, commit)
	}
	if on, err := s.Line(ctx, "rev-parse", "--symbolic-full-name", "HEAD"); err == nil && on != TipRef(w) {
		rules = append(rules, "HEAD")
	}
	return rules
}

// hidden are what only rules ignore that none of the commits has: files, and folders with a slash at their end. list is what git
// has found in the folder so far.
func (s *Shadow) hidden(ctx context.Context, folder, index string, rules []string, list []byte) (hidden []string, ignored map[string]bool, err error) {
	if len(rules) == 0 || !s.hasNewRules(ctx, index, rules[0], list) {
		return nil, nil, nil
	}
	out, err := s.Git(ctx, Call{
		Args: []string{"ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory"}, WorkTree: folder, Index: index, Brief: true,
	})
	if err != nil {
		return nil, nil, TooLong(err)
	}
	all := slices.Sorted(fields(out))
	ignored, only := make(map[string]bool, len(all)), make(map[string]bool)
	for i, name := range all {
		ignored[name] = true
		if !isAround(all, i) {
			only[name] = true
		}
	}
	for _, commit := range rules {
		if err := s.withoutIgnored(ctx, commit, only); err != nil {
			return nil, nil, fmt.Errorf("asking for what %.12s ignores: %w", commit, err)
		}
	}
	for i := 0; i < len(all); i++ {
		end := i + 1
		for isAround(all, i) && end < len(all) && strings.HasPrefix(all[end], all[i]) {
			end++
		}
		whole := true
		for k := i; k < end; k++ {
			whole = whole && (only[all[k]] || isAround(all, k))
		}
		if whole {
			hidden = append(hidden, all[i])
			i = end - 1
		}
	}
	return hidden, ignored, nil
}

// isAround says whether the folder is in the list because everything in it happens to be ignored: what is in it follows.
func isAround(sorted []string, i int) bool {
	return strings.HasSuffix(sorted[i], "/") && i+1 < len(sorted) && strings.HasPrefix(sorted[i+1], sorted[i])
}

// hasNewRules says whether a .gitignore is among the files that were found, or is another in the index than in the commit.
func (s *Shadow) hasNewRules(ctx context.Context, index, commit string, list []byte) bool {
	isRules := func(name string) bool { return path.Base(name) == ".gitignore" }
	for name := range fields(list) {
		if isRules(name) {
			return true
		}
	}
	out, err := s.Git(ctx, Call{
		Args: []string{"diff-index", "--cached", "-z", "--name-only", "--no-renames", "--ignore-submodules=all", commit}, Index: index,
	})
	return err != nil || slices.ContainsFunc(slices.Collect(fields(out)), isRules) // an error: there is no such commit
}

// withoutIgnored takes out of names what the .gitignore files of a commit, or the user's info/exclude, ignore.
func (s *Shadow) withoutIgnored(ctx context.Context, commit string, names map[string]bool) error {
	dir, err := os.MkdirTemp(s.Dir, "rules")
	if err != nil {
		return err
	}
	index, in := filepath.Join(dir, "index"), filepath.Join(dir, "files")
	if err := os.Mkdir(in, 0o700); err != nil {
		return err
	}
	if _, err := s.Line(ctx, "cat-file", "-e", commit+"^{commit}"); err == nil {
		files, err := s.Git(ctx, Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", commit}})
		if err != nil {
			return err
		}
		var rules strings.Builder
		for name := range fields(files) {
			if path.Base(name) == ".gitignore" {
				rules.WriteString(name + "\x00")
			}
		}
		if _, err := s.Git(ctx, Call{Args: []string{"-c", "core.sparseCheckout=false", "read-tree", commit}, Index: index}); err != nil {
			return err
		}
		if _, err := s.Git(ctx, Call{
			Args: []string{"checkout-index", "-q", "-z", "--stdin"}, Stdin: []byte(rules.String()), WorkTree: in, Index: index,
		}); err != nil {
			return err
		}
	}
	var asked strings.Builder
	for name := range names {
		asked.WriteString("./" + name + "\x00") // or a colon would begin pathspec magic
	}
	// The other index has no files, nor submodules, which git asks nothing about.
	out, err := s.Git(ctx, Call{
		Args: []string{"check-ignore", "--no-index", "-z", "--stdin"}, Stdin: []byte(asked.String()), WorkTree: in, Index: index + ".none", Brief: true,
		Env: []string{"GIT_LITERAL_PATHSPECS=0"},
	})
	if err != nil && !exitedWithOne(err) { // none is ignored
		return TooLong(err)
	}
	for name := range fields(out) {
		delete(names, strings.TrimPrefix(name, "./"))
	}
	return nil
}

// maxCounted is how many files of a folder are counted.
const maxCounted = 100_000

// CountFiles says how many files are in a folder, repositories' own left out. Nothing is opened but folders.
func CountFiles(folder string) string {
	count := 0
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil // it can't be read, or is gone
		case entry.Name() == ".git":
			return fs.SkipDir
		case !entry.IsDir():
			count++
		}
		if count >= maxCounted {
			return fs.SkipAll
		}
		return nil
	})
	switch {
	case count == 1:
		return "1 file"
	case count >= maxCounted:
		return fmt.Sprintf("%d files or more", count)
	}
	return fmt.Sprintf("%d files", count)
}
