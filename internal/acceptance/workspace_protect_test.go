package acceptance

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// protectedFiles are files that a tool of the host executes or believes, with what makes it do so.
var protectedFiles = []string{
	".envrc", ".vscode/tasks.json", ".vscode/settings.json", ".idea/workspace.xml", ".claude/settings.json", ".claude/hooks/start.sh",
	".codex/config.toml", ".mcp.json", ".gitmodules",
}

// change changes a file by every way there is, and each of the folders above it.
const change = `
change() {
	f=$1 evil="$(hit "$(echo "$1" | tr / -)")"
	echo "$evil" >"$f"; echo "$evil" >>"$f"; truncate -s 0 "$f"; chmod 777 "$f"; touch -d @0 "$f"
	echo "$evil" >new; mv -f new "$f"; echo "$evil" >new; cp -f new "$f"; cp --remove-destination new "$f"; install new "$f"; ln -f new "$f"; ln -sf /workspace/new "$f"; rm -f "$f"
	sed -i "1i $evil" "$f"; dd if=new of="$f" 2>&1; tee "$f" <new; ln "$f" linked && echo "$evil" >linked; rm -f linked
	echo "$evil" >"/proc/self/root/workspace/$f"; echo "$evil" >"/proc/self/cwd/$f"
	mount --bind new "$f"; umount "$f"; unshare -Urm sh -c "umount -l '/workspace/$f'; cp /workspace/new '/workspace/$f'"
	python3 - "$f" "$evil" <<'END'
import os, sys
f, evil = sys.argv[1:]
def attempt(act):
	try: act()
	except OSError as e: print(e)
def opened():
	fd = os.open(f, os.O_RDONLY)
	with open('/proc/self/fd/%d' % fd, 'w') as again: again.write(evil)
def replaced(): 
	with open('new2', 'w') as new: new.write(evil)
	os.replace('new2', f)
for act in (opened, replaced, lambda: os.truncate(f, 0), lambda: os.chmod(f, 0o777), lambda: os.rename(f, f + '.old')): attempt(act)
END
	d=$(dirname "$f")
	if [ "$d" != . ]; then
		mv "$d" moved; rm -rf "$d"; mkdir -p "$d"; echo "$evil" >"$f"; mkdir other; echo "$evil" >other/$(basename "$f"); mv -T other "$d"; ln -sfn other "$d"; rm -rf other
		python3 -c "import ctypes; l = ctypes.CDLL(None); l.renameat2(-100, b'other', -100, b'$d', 2)"
	fi
	git rm -rqf "$f"; git checkout -q -- "$f"; git stash -q; git stash pop -q
}
`

// TestWorkspaceProtected: what is at the root of a workspace and would be executed can't be changed
// from inside, and an .envrc that was allowed does what it did before.
func TestWorkspaceProtected(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			m.prepare(h)
			for _, name := range protectedFiles {
				h.Write(h.repo, name, "# the user's\n")
			}
			if m.flag == "--repo" {
				h.Must(h.repo, "jj", "commit", "-m", "settings")
			} else {
				h.Git(h.repo, "add", "-A")
				h.Git(h.repo, "commit", "-q", "-m", "settings")
			}
			h.up("box", m)
			folder := m.folder(h, "box")
			h.allow(folder)
			script := prelude("protected", h.canary) + change
			for _, name := range protectedFiles {
				script += "change " + name + "\n"
			}
			h.Logf("inside:\n%s", tail(h.inside("box", script)))
			for _, name := range protectedFiles {
				path := filepath.Join(folder, name)
				info, err := os.Lstat(path)
				if err != nil {
					h.Errorf("%s: %v", name, err)
					continue
				}
				text, err := os.ReadFile(path)
				if err != nil || string(text) != "# the user's\n" || !info.Mode().IsRegular() || info.Mode()&0o111 != 0 {
					h.Errorf("%s is %v, and holds %q (%v)", name, info.Mode(), text, err)
				}
			}
			h.cd(folder)
		})
	}
}

// TestWorkspaceFound: what is not there can't be held without stray files on the host. It is found,
// shown before the user gets there, and put aside.
func TestWorkspaceFound(t *testing.T) {
	for _, m := range modes() {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			m.prepare(h)
			before := names(h, h.repo)
			h.up("box", m)
			if now := names(h, h.repo); now != before {
				h.Errorf("up changed the files of the repository from\n%s\nto\n%s", before, now)
			}
			deeper := append([]string{"docs/.envrc", "docs/deep/.vscode/tasks.json", ".husky/pre-commit", "docs/.claude/settings.json"}, protectedFiles...)
			script := prelude("found", h.canary)
			for _, name := range deeper {
				script += "mkdir -p '" + filepath.Dir(name) + "'; hit x >'" + name + "'\n"
			}
			h.inside("box", script)
			folder := m.folder(h, "box")
			h.shown("box", folder, deeper)
			out, err := h.try("quarantine", "box", "--all") // .gitmodules alone takes more than to go there
			if err != nil {
				h.Fatalf("quarantine: %v\n%s", err, out)
			}
			for _, name := range deeper {
				if _, err := os.Lstat(filepath.Join(folder, name)); err == nil {
					h.Errorf("after quarantine there still is %s", name)
				}
			}
			h.allow(folder)
			h.cd(folder)
			if kept := names(h, filepath.Join(h.state, "quarantine", "box")); !strings.Contains(kept, ".envrc") || !strings.Contains(kept, "tasks.json") {
				h.Errorf("quarantine keeps\n%s", kept)
			}
		})
	}
}

// shown checks that what is there now of the files is shown by every command that shows a sandbox.
func (h *host) shown(name, folder string, files []string) {
	h.Helper()
	for _, args := range [][]string{{"status", name}, {"diff", name}} {
		out, err := h.try(args...)
		if err != nil {
			h.Errorf("forage-ctl %q: %v\n%s", args, err, out)
		}
		for _, file := range files {
			// A folder that is new is shown once, with all that is in it.
			top, _, _ := strings.Cut(file, "/")
			if _, err := os.Lstat(filepath.Join(folder, file)); err == nil && !strings.Contains(out, file) && !(strings.HasPrefix(top, ".") && strings.Contains(out, top)) {
				h.Errorf("forage-ctl %q says nothing of %s:\n%s", args, file, out)
			}
		}
	}
}

// names are all files below dir, but for the repository's own.
func names(h *host, dir string) string {
	h.Helper()
	var found strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == ".git" || d.Name() == ".jj" {
			return fs.SkipDir
		}
		found.WriteString(strings.TrimPrefix(path, dir) + "\n")
		return nil
	})
	if err != nil {
		h.Error(err)
	}
	return found.String()
}
