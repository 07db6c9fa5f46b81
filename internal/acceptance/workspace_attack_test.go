package acceptance

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testdir"
)

// TestWorkspaceAttacks: an agent does to its workspace all that would make tools of the host run
// something, and then the user and Forage work there. Nothing runs. The attacks are made together,
// in as many sandboxes as it takes; in a soak each has one of its own.
func TestWorkspaceAttacks(t *testing.T) {
	for _, m := range modes() {
		for _, a := range grouped(attacks()) {
			t.Run(m.name+"/"+a.name, func(t *testing.T) {
				t.Parallel()
				attacked(newHost(t), m, a)
			})
		}
	}
}

// grouped are attacks as they are made: those together that leave each other what they need. The
// canary's file says which of them ran something.
func grouped(all []attack) []attack {
	if testdir.Soak() {
		return all
	}
	working, broken := attack{name: "metadata that works"}, attack{name: "metadata that is broken"}
	for _, a := range all {
		group := &working
		if a.breaks {
			group = &broken
		}
		if a.removes {
			a.script = "cp -a .git /tmp/git; cp -a .jj /tmp/jj\n" + a.script + "[ ! -d /tmp/git ] || cp -a /tmp/git/. .git; [ ! -d /tmp/jj ] || cp -a /tmp/jj/. .jj\n"
		}
		group.script += fmt.Sprintf("(ATTACK=%s\n%s)\n", word(a.name), a.script)
		group.found = append(group.found, a.found...)
		if a.prepare != nil {
			group.prepare = a.prepare
		}
	}
	return []attack{working, broken}
}

func attacked(h *host, m mode, a attack) {
	m.prepare(h)
	if a.prepare != nil {
		a.prepare(h)
	}
	before := h.metadata()
	h.up("box", m)
	shown := h.inside("box", prelude(a.name, h.canary)+a.script)
	h.Logf("inside:\n%s", tail(shown))
	h.quiet("after the attack")
	folder := m.folder(h, "box")

	h.unchanged(before, "after the attack")
	for _, args := range [][]string{{"status", "box"}, {"ps"}, {"diff", "box"}, {"diff", "box", "--stat"}, {"snapshot", "box", "create"}} {
		out, err := h.try(args...)
		if strings.Contains(out, "\x1b[31m") || err != nil && strings.Contains(out, "deadline") {
			h.Errorf("forage-ctl %q: %v\n%q", args, err, out)
		}
		h.quiet("forage-ctl " + args[0])
	}
	h.cd(folder)
	h.tours(folder, looking)
	h.findings(a)

	if folder != h.repo {
		h.tour(folder, working)
	}
	h.tour(h.repo, append([]string{"git merge --no-edit forage-box"}, working...))
	for _, args := range [][]string{{"apply", "box"}, {"stop", "box"}, {"down", "box"}, {"down", "box", "--force"}} {
		h.try(args...) // may refuse
		h.quiet("forage-ctl " + args[0])
	}
	h.tour(h.repo, looking)
	if out, err := h.Try(h.repo, "git", "fsck", "--full"); err != nil && !strings.Contains(out, "dangling") {
		h.Errorf("git fsck: %v\n%s", err, out)
	}
}

// findings puts aside what can't be held, after it was looked for.
func (h *host) findings(a attack) {
	h.Helper()
	if len(a.found) == 0 {
		return
	}
	status := h.forage("status", "box")
	for _, path := range a.found {
		if !strings.Contains(status, path) {
			h.Errorf("status says nothing of %s:\n%s", path, status)
		}
	}
	if out, err := h.try("quarantine", "box"); err != nil {
		h.Errorf("quarantine: %v\n%s", err, out)
	}
	h.quiet("quarantine")
}

// metadata is what of the user's repository tells git and jj what to do, byte by byte.
func (h *host) metadata() map[string]string {
	h.Helper()
	files := map[string]string{}
	for _, name := range []string{".git/config", ".git/HEAD", ".git/hooks", ".git/info/attributes", ".git/info/exclude", ".git/objects/info/alternates", ".git/commondir", ".git/config.worktree", ".jj/repo/config.toml", ".jj/working_copy/type", ".jj/repo/store/git_target"} {
		path := filepath.Join(h.repo, name)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			files[name] = "absent"
		case info.IsDir():
			entries, err := os.ReadDir(path)
			if err != nil {
				h.Fatal(err)
			}
			for _, entry := range entries {
				files[name] += entry.Name() + " "
			}
		default:
			text, err := os.ReadFile(path)
			if err != nil {
				h.Fatal(err)
			}
			files[name] = info.Mode().String() + " " + string(text)
		}
	}
	return files
}

func (h *host) unchanged(before map[string]string, when string) {
	h.Helper()
	for name, now := range h.metadata() {
		if now != before[name] {
			h.Errorf("%s the user's %s is\n%s\nand was\n%s", when, name, now, before[name])
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-1500):] }

// TestWorkspaceAttacksBite: on a repository without Forage in between, the attacks do run, so that
// silence in TestWorkspaceAttacks means something.
func TestWorkspaceAttacksBite(t *testing.T) {
	for _, test := range []struct{ name, script, where, command string }{
		{"configuration", `evil "$dir/.git/config" config; echo more >>"$dir/file.txt"`, "", "git status"},
		{"hook", `script "$dir/.git/hooks/pre-commit" hook`, "", "git commit --allow-empty -m x"},
		{"filter", `evil "$dir/.git/config" config; set_in "$dir/.git/config" core.fsmonitor false; echo '* filter=evil' >"$dir/.git/info/attributes"; echo more >>"$dir/file.txt"`, "", "git diff"},
		{"commondir", `evil "$dir/evil.git/config" common; cp -r "$dir/.git/objects" "$dir/.git/refs" "$dir/.git/HEAD" "$dir/evil.git"; echo "$dir/evil.git" >"$dir/.git/commondir"`, "", "git status"},
		{"nested repository", `mkdir "$dir/inner"; cd "$dir/inner"; git init -q; git -c user.name=A -c user.email=a@b commit -q --allow-empty -m x; evil .git/config inner; git -C .. add inner`, "", "git status"},
		{"planted bare repository", `mkdir -p "$dir/bare/objects" "$dir/bare/refs"; echo 'ref: refs/heads/main' >"$dir/bare/HEAD"; evil "$dir/bare/config" bare; set_in "$dir/bare/config" core.repositoryformatversion 0; set_in "$dir/bare/config" core.bare false; set_in "$dir/bare/config" core.worktree work; mkdir "$dir/bare/work"`, "bare", "git status"},
		{"file that is included", `git -C "$dir" config include.path ../conf; evil "$dir/conf" included`, "", "git status"},
		{"husky", `git -C "$dir" config core.hooksPath .husky; script "$dir/.husky/pre-commit" husky`, "", "git commit --allow-empty -m x"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.Repository(h.repo)
			script := strings.Replace(prelude(test.name, h.canary), "cd /workspace", "dir="+h.repo+"; cd "+h.base, 1) + test.script
			h.Try(h.base, "sh", "-c", script)
			h.hits() // what was run while it was planted
			out, _ := h.Try(filepath.Join(h.repo, test.where), "sh", "-c", test.command)
			if len(h.hits()) == 0 {
				t.Errorf("%s runs nothing\n%s", test.command, out)
			}
		})
	}
}
