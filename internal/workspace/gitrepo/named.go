package gitrepo

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
)

// Named is a path that a repository's configuration names to be executed, or to be read as more configuration.
type Named struct {
	Path string // absolute, or as git sees it from the working folder
	Word bool   // it is a word of a command, and need not be a path at all
}

// Bounds of looking for such paths: the file that another one includes may be in the working folder.
const (
	maxIncluded = 20
	maxNamed    = 1000
)

// Named are the paths that the configuration of the repository, and that of its working folder at folder, has git execute
// there or read. Nothing of it is asked of git: includes are followed as data.
func (r *Repository) Named(ctx context.Context, folder string) []Named {
	files := []string{filepath.Join(r.Common, "config"), filepath.Join(r.Common, "config.worktree")}
	for _, checkout := range r.Checkouts(ctx) {
		if file := filepath.Join(checkout.GitDir, "config.worktree"); checkout.Folder == folder && !slices.Contains(files, file) {
			files = append(files, file)
		}
	}
	var all []Named
	for i := 0; i < len(files) && i < maxIncluded; i++ {
		config, err := readConfig(files[i])
		if err != nil {
			continue // git can't read it either
		}
		for key, values := range config {
			for _, value := range values {
				named, included := namedBy(key, value, filepath.Dir(files[i]))
				all = append(all, named...)
				if included != "" && !slices.Contains(files, included) {
					files = append(files, included)
				}
			}
		}
	}
	return all[:min(len(all), maxNamed)]
}

// executedKeys are the settings whose values git executes: git-config(1). "*" is any subsection.
var executedKeys = []string{
	"core.fsmonitor", "core.sshcommand", "core.editor", "core.pager", "core.askpass", "core.gitproxy", "core.alternaterefscommand",
	"sequence.editor", "interactive.difffilter", "diff.external", "diff.*.command", "diff.*.textconv", "merge.*.driver",
	"filter.*.clean", "filter.*.smudge", "filter.*.process", "alias.*", "pager.*", "credential.helper", "credential.*.helper",
	"gpg.program", "gpg.*.program", "difftool.*.cmd", "difftool.*.path", "mergetool.*.cmd", "mergetool.*.path",
	"trailer.*.command", "trailer.*.cmd", "submodule.*.update", "uploadpack.packobjectshook", "sendemail.tocmd", "sendemail.cccmd",
}

// namedBy are the paths in a setting of a file in dir, and what it includes.
func namedBy(key, value, dir string) (named []Named, included string) {
	section, rest, _ := strings.Cut(key, ".")
	name := rest[strings.LastIndexByte(rest, '.')+1:]
	switch {
	case key == "core.hookspath":
		return []Named{{Path: value}}, ""
	case (section == "include" || section == "includeif") && name == "path" && value != "":
		if !filepath.IsAbs(value) {
			value = filepath.Join(dir, value)
		}
		return []Named{{Path: value}}, value
	case slices.Contains(executedKeys, key), slices.Contains(executedKeys, section+".*."+name) && name != rest,
		slices.Contains(executedKeys, section+".*"):
		for word := range strings.FieldsFuncSeq(value, betweenWords) {
			if word = strings.TrimLeft(word, "!"); word != "" {
				named = append(named, Named{word, true})
			}
		}
	}
	return named, ""
}

// betweenWords are what words of a shell's command end at, more or less.
func betweenWords(r rune) bool { return strings.ContainsRune(" \t\n'\"`;|&()<>{}=,$", r) }
