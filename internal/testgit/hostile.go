package testgit

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hooks are those of githooks(5) that something other than mail or a server runs.
var hooks = [...]string{
	"applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "prepare-commit-msg", "commit-msg",
	"post-commit", "pre-rebase", "post-checkout", "post-merge", "pre-push", "pre-receive", "update", "post-receive", "post-update",
	"reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "fsmonitor-watchman", "post-index-change",
}

// Trap makes git run a program wherever a repository's configuration, attributes and hooks can have
// it do so, and returns what has been run since: "" is nothing. Dir is the git directory that they
// are in.
func (r *Repo) Trap(t testing.TB, dir string) func() string {
	t.Helper()
	traps := t.TempDir()
	ran := filepath.Join(traps, "ran")
	program := func(name string) string {
		path := filepath.Join(traps, name)
		script := fmt.Sprintf("#!/bin/sh\necho %s >>%s\nexit 1\n", name, ran)
		if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var b strings.Builder
	set := func(section, name string) {
		fmt.Fprintf(&b, "[%s]\n\t%s = %s\n", section, name, program(strings.NewReplacer(`"`, "", " ", "-").Replace(section)+"-"+name))
	}
	for _, name := range [...]string{"fsmonitor", "pager", "editor", "sshCommand", "askPass", "gitProxy", "alternateRefsCommand"} {
		set("core", name)
	}
	for _, name := range [...]string{"clean", "smudge", "process"} {
		set(`filter "trap"`, name)
	}
	for section, name := range map[string]string{
		"diff": "external", `diff "trap"`: "textconv", `merge "trap"`: "driver", "sequence": "editor", "gpg": "program", `gpg "ssh"`: "program",
		"uploadpack": "packObjectsHook", "ssh": "variant", "credential": "helper", `remote "origin"`: "uploadpack", `remote "trap"`: "vcs",
		`trailer "trap"`: "command", "interactive": "diffFilter", `hook "trap"`: "command", "web": "browser",
	} {
		set(section, name)
	}
	for _, alias := range [...]string{"status", "read-tree", "update-ref", "update-index", "rev-parse", "ls-files", "for-each-ref", "fetch", "index-pack"} {
		fmt.Fprintf(&b, "[alias]\n\t%s = !%s\n", alias, program("alias-"+alias))
	}
	for _, hook := range hooks {
		target := filepath.Join(dir, "hooks", hook)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(target)
		if err := os.Symlink(program("hook-"+hook), target); err != nil {
			t.Fatal(err)
		}
	}
	included := filepath.Join(traps, "included")
	write(t, included, b.String())
	fmt.Fprintf(&b, "[include]\n\tpath = %s\n[commit]\n\tgpgSign = true\n[extensions]\n\tworktreeConfig = true\n", included)
	write(t, filepath.Join(dir, "config.worktree"), b.String())
	write(t, filepath.Join(dir, "info/attributes"), "* filter=trap diff=trap merge=trap\n")
	config := filepath.Join(dir, "config")
	text, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	write(t, config, string(text)+b.String())
	return func() string {
		text, err := os.ReadFile(ran)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return string(text)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
