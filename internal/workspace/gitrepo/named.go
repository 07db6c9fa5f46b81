package gitrepo

import (
	"context"
	"os"
	"os/user"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Named is a path that git's configuration names to be executed, or to be read as more
// configuration.
type Named struct {
	Path string // absolute; links in it are git's to follow
	Word bool   // it is any word of a command, and need not be a path at all
}

// Bounds of looking for such paths: the file that another one includes may be in the working
// folder.
const (
	maxIncluded = 50
	maxNamed    = 1000
)

// UserConfig is where a user's own configuration of git is, which holds in all repositories.
type UserConfig struct {
	Home  string   // what ~ stands for
	Files []string // whether or not they are there
	Env   []string // with which git finds them
}

// Named are the files of the user's own configuration, and the paths that it, that of the
// repository at a path, and that of its working folder at folder have git execute or read there. Of
// a repository that isn't there, it is the user's own alone. Includes are followed as data.
func (u UserConfig) Named(ctx context.Context, repository, folder string) []Named {
	files := slices.Clone(u.Files)
	git, all := "", []Named(nil)
	if r, err := locate(ctx, repository); err == nil {
		git = r.Common
		all = linkedHooks(git)
		files = append(files, filepath.Join(r.Common, "config"), filepath.Join(r.Common, "config.worktree"))
		for _, checkout := range r.Checkouts(ctx) {
			if file := filepath.Join(checkout.GitDir, "config.worktree"); checkout.Folder == folder && !slices.Contains(files, file) {
				files = append(files, file)
			}
		}
	}
	for _, file := range u.Files { // so may that
		all = append(all, Named{Path: file})
	}
	for i := 0; i < len(files) && i < maxIncluded; i++ {
		config, err := ReadConfig(ctx, files[i])
		if err != nil {
			continue // git can't read it either
		}
		for key, values := range config {
			for _, value := range values {
				if included, ok := u.includes(key, value, files[i], git); ok {
					all = append(all, Named{Path: included})
					if !slices.Contains(files, included) {
						files = append(files, included)
					}
				}
				all = append(all, u.executes(key, value, folder)...)
			}
		}
	}
	return all[:min(len(all), maxNamed)]
}

// linkedHooks are the hooks of a repository, or the folder of all, that are links: one may lead into the tree.
func linkedHooks(git string) (linked []Named) {
	hooks := filepath.Join(git, "hooks")
	entries, _ := os.ReadDir(hooks)
	at := []string{hooks}
	for _, entry := range entries {
		at = append(at, filepath.Join(hooks, entry.Name()))
	}
	for _, path := range at {
		if info, err := os.Lstat(path); err == nil && info.Mode().Type() == os.ModeSymlink {
			linked = append(linked, Named{Path: path})
		}
	}
	return linked
}

// includes is the file that a setting in file has git read where the git directory is git.
func (u UserConfig) includes(key, value, file, git string) (included string, ok bool) {
	condition, conditional := strings.CutPrefix(key, "includeif.")
	condition, isPath := strings.CutSuffix(condition, ".path")
	if key != "include.path" && !(conditional && isPath && u.mayHold(condition, git)) {
		return "", false
	}
	return u.path(value, filepath.Dir(file)), value != ""
}

// mayHold says whether the condition of an include may hold for a git directory. What can't be said
// of it, or changes with time, may.
func (u UserConfig) mayHold(condition, git string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if !strings.HasPrefix(kind, "gitdir") || git == "" {
		return true
	}
	literal := u.path(pattern, "")
	if at := strings.IndexAny(literal, `*?[\`); at >= 0 {
		literal = literal[:at]
	}
	// That of a linked worktree is below git, and what stands for a folder in the pattern may be a
	// link to it. Large and small letters are one, as with gitdir/i.
	git = strings.ToLower(git + "/")
	for _, way := range []string{literal, resolvedFolder(literal)} {
		if way = strings.ToLower(way); !filepath.IsAbs(way) || strings.HasPrefix(git, way) || strings.HasPrefix(way, git) {
			return true
		}
	}
	return false
}

// resolvedFolder is the beginning of a path, without links in what is a folder of it.
func resolvedFolder(path string) string {
	dir, rest := filepath.Split(path)
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		return strings.TrimSuffix(real, "/") + "/" + rest
	}
	return path
}

// executedKeys are the settings whose values git executes on the way of everyday commands:
// git-config(1). "*" is any subsection.
var executedKeys = []string{
	"core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass", "core.gitproxy", "core.alternaterefscommand",
	"sequence.editor", "interactive.difffilter", "diff.external", "diff.*.command", "diff.*.textconv", "merge.*.driver",
	"filter.*.clean", "filter.*.smudge", "filter.*.process", "pager.*", "credential.helper", "credential.*.helper",
	"gpg.program", "gpg.*.program", "gpg.ssh.defaultkeycommand", "trailer.*.command", "trailer.*.cmd", "submodule.*.update",
	"uploadpack.packobjectshook", "remote.*.uploadpack", "remote.*.receivepack", "hook.*.command",
	"lfs.*.path", "lfs.*.clean", "lfs.*.smudge", // Git LFS: transfers and extensions of one's own
}

// calledKeys are those whose values git executes when they are called by name.
var calledKeys = []string{
	"alias.*", "difftool.*.cmd", "difftool.*.path", "mergetool.*.cmd", "mergetool.*.path", "guitool.*.cmd", "browser.*.cmd", "browser.*.path",
	"man.*.cmd", "man.*.path", "sendemail.tocmd", "sendemail.cccmd", "sendemail.headercmd", "sendemail.sendmailcmd", "sendemail.smtpserver",
	"imap.tunnel", "tar.*.command",
}

// executes are the paths in a setting that git executes, or has hooks in, in the working folder.
func (u UserConfig) executes(key, value, folder string) (named []Named) {
	if at := filepath.Clean(u.path(value, folder)); value == "" || at == filepath.Clean(folder) {
		return nil // nothing, or no one file or folder of it
	}
	switch unasked := isAmong(executedKeys, key); {
	case key == "core.hookspath":
		// Husky's are in .husky/_ and run those of the same name in .husky.
		return []Named{{Path: strings.TrimSuffix(strings.TrimRight(u.path(value, folder), "/"), "/_")}}
	case key == "init.templatedir": // git init and clone make hooks of it
		return []Named{{Path: u.path(value, folder)}}
	case strings.HasPrefix(key, "alias.") && !strings.HasPrefix(value, "!"): // a command of git's
	case unasked, isAmong(calledKeys, key):
		before := ""
		for i, word := range words(value) {
			isPath := strings.Contains(word, "/")
			if filepath.Clean(word) != "." && (isPath || unasked || interpreters[before]) {
				isProgram := unasked && i == 0 && isPath && !strings.HasPrefix(word, "$") // where a variable leads, only a shell can say
				named = append(named, Named{u.path(word, folder), !isProgram})
			}
			before = path.Base(word)
		}
	}
	return named
}

// interpreters are programs that execute the file which they are given.
var interpreters = map[string]bool{
	"sh": true, "bash": true, "dash": true, "zsh": true, "fish": true, ".": true, "source": true, "exec": true, "env": true,
	"python": true, "python3": true, "perl": true, "ruby": true, "node": true, "deno": true, "bun": true, "php": true, "awk": true, "-f": true,
}

// words are those of a shell's command, more or less: what is quoted in the place of the program is
// one.
func words(command string) (list []string) {
	command = strings.NewReplacer("${HOME}", "~", "$HOME", "~").Replace(strings.TrimLeft(command, "! \t\n"))
	if command != "" && strings.Contains(`'"`, command[:1]) {
		if program, rest, closed := strings.Cut(command[1:], command[:1]); closed {
			list, command = append(list, program), rest
		}
	}
	if strings.HasPrefix(command, "$") {
		program, rest, _ := strings.Cut(command, " ")
		list, command = append(list, program), rest
	}
	for word := range strings.FieldsFuncSeq(command, betweenWords) {
		if word = strings.TrimLeft(word, "!"); word != "" {
			list = append(list, word)
		}
	}
	return list
}

// isAmong says whether keys have a key, with or without its subsection.
func isAmong(keys []string, key string) bool {
	section, rest, _ := strings.Cut(key, ".")
	at := strings.LastIndexByte(rest, '.')
	return slices.Contains(keys, key) || slices.Contains(keys, section+".*") || at >= 0 && slices.Contains(keys, section+".*."+rest[at+1:])
}

// betweenWords are what words of a shell's command end at, more or less.
func betweenWords(r rune) bool { return strings.ContainsRune(" \t\n'\"`;|&()<>{}=,$", r) }

// path is a path as git and shells read it, seen from dir where it is relative: git-config(1),
// "pathname".
func (u UserConfig) path(text, dir string) string {
	text = strings.TrimPrefix(text, ":(optional)")
	if of, ok := strings.CutPrefix(text, "~"); ok {
		name, rest, _ := strings.Cut(of, "/")
		home := u.Home
		if name != "" {
			if account, err := user.Lookup(name); err == nil {
				home = account.HomeDir
			}
		}
		if home == "" {
			return ""
		}
		return home + "/" + rest
	}
	if dir == "" || filepath.IsAbs(text) {
		return text
	}
	return filepath.Join(dir, text)
}
