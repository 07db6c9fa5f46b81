package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"forage/internal/testdir"
)

// hostile is content of a workspace that is a trap for its reader: not by what is in it, but by
// what it is.
type hostile struct {
	name   string
	script string
	// blind: the user's own git is not for such a folder either.
	blind bool
	check func(h *host, m mode)
}

// anyRepository finds the git directory inside and the commit that the work is based on, be it
// git's or jj's. work_on has a commit brought to the host, and says so.
const anyRepository = `
if [ -d .jj ]; then dir=$(jj git root) at=$(jj log --no-graph -r @- -T commit_id); else dir=$(git rev-parse --git-dir) at=$(git rev-parse HEAD); fi
export GIT_DIR="$dir"
work_on() {
	git cat-file -e "$1" || return
	if [ -d .jj ]; then git update-ref "refs/heads/work-$1" "$1"; env -u GIT_DIR jj git import; else git update-ref "$(git symbolic-ref HEAD)" "$1"; fi
	echo "works on $1"
}
`

func hostiles() []hostile {
	return []hostile{
		{name: "links that leave", script: `
rm -rf docs file.txt
ln -s "$OUTSIDE" docs; ln -s "$OUTSIDE/guide.txt" file.txt; ln -s "$OUTSIDE" .vscode; ln -s /proc/self/root loop; ln -s . here; ln -s ../../../../../../../.. up
mkdir real; ln -s "$OUTSIDE/guide.txt" real/.envrc; ln -s "$OUTSIDE" real/folder
git add -A && git commit -qm links && git rm -rq --cached docs && rm docs && mkdir docs && echo changed >docs/guide.txt && git add -A && git commit -qm back
rm -rf docs && ln -s "$OUTSIDE" docs
`},
		{name: "FIFOs and devices", blind: true, script: `
rm -f file.txt .gitignore; mkfifo file.txt .gitignore .gitattributes docs/.gitignore docs/.gitattributes docs/pipe .envrc .gitmodules package.json Makefile
python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('socket')"
mknod null c 1 3; mkdir -p .vscode && mkfifo .vscode/tasks.json
`},
		{name: "names", script: `
for name in "$(printf 'red\033[31m')" "$(printf 'new\nline')" "$(printf 'bidi\342\200\256txt')" -rf --help '$(x)' "$(printf '\377\376')" ' ' ':(top)' '"quoted"' 'back\slash'; do
	echo x >"./$name"; mkdir -p "folder-$name" && echo x >"folder-$name/.envrc"
done
git add -A; git commit -qm "$(printf 'red \033[31m and \342\200\256 and \r over')"; jj commit -m "$(printf 'red \033[31m and \342\200\256')"
git checkout -q -b "$(printf 'bidi\342\200\256')" && git stash -q; git tag "$(printf 'bidi\342\200\256')"
echo more >>"$(printf 'red\033[31m')"
`},
		{name: "files without an end", blind: true, script: `
truncate -s 4T sparse; truncate -s 100G docs/sparse.txt; rm file.txt; truncate -s 1T file.txt; truncate -s 50G .gitignore .gitattributes .envrc package.json Makefile
dir=$(git rev-parse --git-dir); truncate -s 50G "$dir/packed-refs" "$dir/logs/HEAD" "$dir/objects/pack/pack-1234567890123456789012345678901234567890.pack" "$dir/refs/heads/large"
[ ! -d .jj ] || truncate -s 50G .jj/repo/op_heads/heads/* .jj/working_copy/tree_state
`},
		{name: "without permission", script: `
mkdir -p closed/deeper/still && echo x >closed/deeper/file && chmod 000 closed/deeper/file closed/deeper closed
echo more >>file.txt; git add file.txt; git commit -qm closed
dir=$(git rev-parse --git-dir); chmod 000 "$dir"/objects/?? "$dir/refs/heads" "$dir/config" "$dir/index" "$dir/logs"; chmod 000 "$dir"
[ ! -d .jj ] || chmod -R 000 .jj/repo .jj/working_copy
chmod 000 docs
`},
		{name: "deep folders", script: `
python3 - <<'END'
import os
os.mkdir('deep'); os.chdir('deep')
for n in range(600):
    os.mkdir('d' * 100); os.chdir('d' * 100)
open('.envrc', 'w').write('x'); os.mkdir('.git')
END
`},
		{name: "trees that git refuses", script: anyRepository + `
for name in .git .. . .GIT 'git~1' '.gitmodules/x' 'a/b' ''; do
	python3 - "$name" <<'END' >tree
import sys
sys.stdout.buffer.write(b'40000 ' + sys.argv[1].encode() + b'\0' + bytes.fromhex('4b825dc642cb6eb9a060e54bf8d69288fbee4904'))
END
	tree=$(git hash-object -t tree --literally -w tree) && commit=$(git commit-tree -p "$at" -m "bad $name" "$tree") &&
		git update-ref "refs/heads/bad-$(echo "$commit" | cut -c1-8)" "$commit"
done
rm -f tree
git hash-object -t tree --literally -w /dev/null
link=$(printf '../../x' | git hash-object -w --stdin)
bad=$(printf '120000 blob %s\t.gitmodules\n' "$link" | git mktree)
work_on "$(git commit-tree -p "$at" -m 'a link for .gitmodules' "$bad")"
`, check: func(h *host, _ mode) {
			out, _ := h.Try(h.repo, "git", "log", "--all", "--format=%s")
			if strings.Contains(out, "bad ") || strings.Contains(out, "a link for .gitmodules") {
				h.Errorf("commits that git refuses were brought:\n%s", out)
			}
		}},
		{name: "objects that lie", script: anyRepository + `
object=$(git rev-parse "$at:file.txt"); other=$(echo 'planted' | git hash-object -w --stdin)
stored() { echo "$dir/objects/$(echo "$1" | sed 's|^..|&/|')"; }
fake=0123456789012345678901234567890123456789
for id in "$object" $fake; do
	mkdir -p "$(dirname "$(stored $id)")" && rm -f "$(stored $id)" && cp "$(stored "$other")" "$(stored $id)"
done
work_on "$(git commit-tree -p "$at" -m honest "$(git rev-parse "$at^{tree}")")"
mkdir -p "$dir/refs/heads" && echo $fake >"$dir/refs/heads/fake"
work_on "$(printf 'tree %s\nparent %s\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nof a lie\n' "$(printf '100644 blob %s\tlie\n' $fake | git mktree --missing)" "$at" | git hash-object -t commit --literally -w --stdin)"
`, check: func(h *host, _ mode) {
			if out, err := h.Try(h.repo, "git", "cat-file", "-e", "0123456789012345678901234567890123456789"); err == nil {
				h.Errorf("an object that isn't what it says was brought\n%s", out)
			}
			if out := h.Git(h.repo, "show", "HEAD:file.txt"); strings.Contains(out, "planted") {
				h.Errorf("file.txt of HEAD is %q", out)
			}
		}},
	}
}

// TestWorkspaceHostile: no content of a workspace makes Forage hang, write or read outside of it,
// or print what a terminal obeys; and it can be taken down. Each content is tried in one mode, and
// in a soak in all of them.
func TestWorkspaceHostile(t *testing.T) {
	for i, m := range modes() {
		for j, c := range hostiles() {
			if i != j%len(modes()) && !testdir.Soak() {
				continue
			}
			t.Run(m.name+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				survives(newHost(t), m, c)
			})
		}
	}
}

const outsideText = "the host's secret\n"

func survives(h *host, m mode, c hostile) {
	m.prepare(h)
	outside := filepath.Join(h.base, "outside")
	h.Write(outside, "guide.txt", outsideText)
	h.up("box", m)
	said := h.inside("box", prelude(c.name, h.canary)+"OUTSIDE="+outside+"\n"+c.script)
	h.Logf("inside:\n%s", tail(said))
	if c.check != nil && !strings.Contains(said, "works on") {
		h.Error("nothing was planted")
	}
	folder := m.folder(h, "box")
	commands := [][]string{
		{"status", "box"}, {"ps"}, {"diff", "box"}, {"diff", "box", "-o", "json"}, {"snapshot", "box", "create", "--label", "first"}, {"snapshot", "box", "list"},
		{"apply", "box"}, {"quarantine", "box"}, {"stop", "box"}, {"start", "box"}, {"down", "box"},
	}
	if m.name == "git-worktree" || testdir.Soak() { // it takes long
		commands = slices.Insert(commands, 6, []string{"fork", "box", "other"}, []string{"down", "other", "--force"}, []string{"snapshot", "box", "restore", "first"})
	}
	for _, args := range commands {
		h.commandEnds(args)
	}
	if !c.blind {
		h.tours(folder, looking)
	}
	if c.check != nil {
		c.check(h, m)
	}
	h.commandEnds([]string{"down", "box", "--force"})
	if out := h.forage("ps"); strings.Contains(out, "box") {
		h.Errorf("down --force left\n%s", out)
	}
	for _, dir := range []string{"workspaces", "repositories"} {
		left, err := os.ReadDir(filepath.Join(h.state, dir))
		for _, entry := range left {
			if err == nil && !strings.HasPrefix(entry.Name(), ".") { // .recovery: what can't be brought is kept as it is
				h.Errorf("down --force left %s/%s", dir, entry.Name())
			}
		}
	}
	h.opened(folder)
	h.opened(h.state) // what can't be brought is kept as it is
	h.outsideUntouched(outside)
}

// commandEnds runs a command that may fail, and has to end, quietly.
func (h *host) commandEnds(args []string) {
	h.Helper()
	out, err := h.try(args...)
	if errors.Is(err, context.DeadlineExceeded) {
		h.Errorf("forage-ctl %q doesn't end\n%s", args, out)
	}
	if strings.ContainsAny(out, "\x1b\r\u202e") {
		h.Errorf("forage-ctl %q prints what a terminal obeys: %q", args, out)
	}
	if strings.Contains(out, strings.TrimSpace(outsideText)) {
		h.Errorf("forage-ctl %q shows what is outside: %s", args, out)
	}
	if strings.Contains(out, "goroutine ") {
		h.Errorf("forage-ctl %q: %s", args, out)
	}
	h.quiet(fmt.Sprintf("forage-ctl %q", args))
}

// outsideUntouched checks that a folder of the host is as it was, and that nothing of it was read
// into the repository or the state.
func (h *host) outsideUntouched(outside string) {
	h.Helper()
	entries, err := os.ReadDir(outside)
	if err != nil || len(entries) != 1 {
		h.Errorf("the folder outside has %v (%v)", entries, err)
	}
	text, err := os.ReadFile(filepath.Join(outside, "guide.txt"))
	if err != nil || string(text) != outsideText {
		h.Errorf("the file outside holds %q (%v)", text, err)
	}
	if out, err := h.Try(h.repo, "git", "grep", "-l", strings.TrimSpace(outsideText), "HEAD"); err == nil {
		h.Errorf("what is outside was read into %s", out)
	}
}

// opened makes a user's folder one that the test can remove.
func (h *host) opened(folder string) {
	h.Helper()
	if _, err := os.Stat(folder); err == nil {
		h.Must(folder, "chmod", "-R", "u+rwX", ".")
	}
}
