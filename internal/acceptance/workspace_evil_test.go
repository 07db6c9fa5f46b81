package acceptance

import (
	"os"
	"path/filepath"
)

// evilConfig is a shell function that adds all that makes git run something to a git configuration
// file. It writes the file itself: git would be started a thousand times, and not everywhere does
// it find a repository.
const evilConfig = `
evil() {
	f=$1 at=$2 hooks=.evil/$ATTACK/hooks
	for key in core.fsmonitor core.sshCommand core.pager core.editor core.askPass core.gitProxy core.alternateRefsCommand \
		diff.external diff.evil.command diff.evil.textconv filter.evil.clean filter.evil.smudge merge.evil.driver \
		sequence.editor interactive.diffFilter uploadpack.packObjectsHook gpg.program gpg.ssh.program pager.status pager.diff pager.log pager.show pager.branch \
		trailer.evil.command mergetool.evil.cmd difftool.evil.cmd web.browser man.viewer; do
		set_in "$f" "$key" "touch $CANARY/$ATTACK-$at-$key; "
	done
	set_in "$f" core.repositoryformatversion 0
	set_in "$f" core.fsmonitor "touch $CANARY/$ATTACK-$at-fsmonitor; "
	set_in "$f" credential.helper "!touch $CANARY/$ATTACK-$at-credential; "
	set_in "$f" filter.evil.required true
	set_in "$f" filter.evil.process "touch $CANARY/$ATTACK-$at-process; "
	set_in "$f" commit.gpgSign true
	set_in "$f" log.showSignature true
	set_in "$f" merge.tool evil
	set_in "$f" diff.tool evil
	set_in "$f" diff.ignoreSubmodules none
	set_in "$f" status.submoduleSummary true
	set_in "$f" submodule.recurse true
	set_in "$f" submodule.sub.update "!touch $CANARY/$ATTACK-$at-update; "
	set_in "$f" remote.origin.url "ext::sh -c 'touch $CANARY/$ATTACK-$at-ext; '"
	set_in "$f" remote.origin.uploadpack "touch $CANARY/$ATTACK-$at-uploadpack; "
	set_in "$f" protocol.allow always
	set_in "$f" protocol.ext.allow always
	for name in st ci co lg fetch-all; do set_in "$f" alias.$name "!touch $CANARY/$ATTACK-$at-alias; "; done
	if [ "$at" != included ]; then
		[ -e ".evil/$ATTACK/included" ] || (evil ".evil/$ATTACK/included" included)
		set_in "$f" include.path "/workspace/.evil/$ATTACK/included"
		set_in "$f" include.path "../.evil/$ATTACK/included"
	fi
	[ -d "$hooks" ] || for hook in applypatch-msg pre-applypatch post-applypatch pre-commit pre-merge-commit prepare-commit-msg commit-msg post-commit pre-rebase \
		post-checkout post-merge pre-push pre-receive update proc-receive post-receive post-update reference-transaction push-to-checkout \
		pre-auto-gc post-rewrite sendemail-validate fsmonitor-watchman post-index-change; do
		script "$hooks/$hook" "hooksPath-$hook"
	done
	set_in "$f" core.hooksPath "$hooks"
	set_in "$f" core.attributesFile .evil/attributes
	echo '* filter=evil diff=evil merge=evil' >.evil/attributes
}
`

// evilJJ is a shell function that fills a jj configuration file.
const evilJJ = `
evil_jj() {
	sh="[\"sh\", \"-c\", \"$(hit "$2")\"]"
	mkdir -p "$(dirname "$1")"
	cat >"$1" <<END
ui.pager = $sh
ui.paginate = "auto"
ui.editor = $sh
ui.diff-editor = $sh
ui.diff-formatter = $sh
ui.merge-editor = $sh
ui.default-command = ["util", "exec", "--", "sh", "-c", "$(hit "$2")"]
aliases.st = ["util", "exec", "--", "sh", "-c", "$(hit "$2")"]
aliases.lg = ["util", "exec", "--", "sh", "-c", "$(hit "$2")"]
fsmonitor.backend = "watchman"
core.fsmonitor = "watchman"
core.watchman.register-snapshot-trigger = true
signing.behavior = "own"
signing.backend = "gpg"
signing.backends.gpg.program = "$PWD/.evil/$ATTACK/hooks/pre-commit"
git.executable-path = "$PWD/.evil/$ATTACK/hooks/pre-commit"
git.subprocess = true
fix.tools.evil.command = $sh
fix.tools.evil.patterns = ["all()"]
merge-tools.evil.program = "$PWD/.evil/$ATTACK/hooks/pre-commit"
END
}
`

// attack is something that an agent does to a workspace, to have the host run it later.
type attack struct {
	name   string
	script string
	// found: it makes files deeper in the tree, where nothing can be held. They have to be found,
	// and quarantine has to put them aside, before the user adds and commits; looking is safe at
	// once.
	found []string
	// prepare makes what is there before, on the host.
	prepare func(h *host)
	// breaks: its commits are refused, its metadata works no more, or hooks are not where they
	// usually are.
	breaks bool
	// removes: it takes the metadata away, which is put back where another attack comes after it.
	removes bool
}

// attacks are in an order in which each leaves the next of its kind what it needs.
func attacks() []attack {
	return []attack{
		{name: "attributes in the tree", script: `
echo '* filter=evil diff=evil merge=evil' >.gitattributes
echo '* filter=lfs diff=astextplain merge=union ident' >docs/.gitattributes
evil .gitconfig tree
cp .gitconfig config
git add -A && git commit -qm attributes || jj commit -m attributes
echo more >>file.txt
`},
		{name: "nested repositories", script: nestedScript, found: []string{"inner", "deep/er/inner", "bare", "pointing"}},
		{name: "bare repository at the root", script: `
evil config bare-root
set_in config core.bare false
set_in config core.worktree /
mkdir -p objects refs/heads hooks && echo 'ref: refs/heads/main' >HEAD
for hook in pre-commit post-checkout post-index-change; do script "hooks/$hook" root-hook; done
`, found: []string{"HEAD"}},
		{name: "private configuration and hooks", script: `
for dir in .git "$(git rev-parse --git-dir)" "$(git rev-parse --git-common-dir)" /run/repositories/*/git .jj/repo/store/git; do
	[ -d "$dir" ] || continue
	for hook in .git/hooks/*.sample pre-commit post-checkout post-index-change reference-transaction fsmonitor-watchman post-commit pre-auto-gc post-merge; do
		script "$dir/hooks/$(basename "$hook" .sample)" "hook"
	done
	evil "$dir/config" config
	evil "$dir/config.worktree" worktree
	set_in "$dir/config" extensions.worktreeConfig true
	mkdir -p "$dir/info"
	echo '* filter=evil diff=evil merge=evil' >"$dir/info/attributes"
done
for file in .jj/repo/config.toml .jj/config.toml .jj/workspace-config.toml .jj/repo/workspace-config.toml; do
	[ ! -d .jj ] || evil_jj "$file" "jj-config"
done
rm -rf .evil/*/included
for n in 1 2; do echo "$n" >>file.txt; git -c core.hooksPath=/dev/null -c core.fsmonitor= -c commit.gpgSign=false -c filter.evil.process= -c filter.evil.clean=cat -c filter.evil.required=false commit -qam "evil $n"; done
`},
		{name: "files that the configuration names", script: `
mv tools tools2; rm -rf tools
printf '[core]\n\tfsmonitor = "%s"\n' "$(hit included)" >new; cp new tools/gitconfig; mv -f new tools/gitconfig; ln -sf new tools/gitconfig
script new watch; cp new tools/watch; mv -f new tools/watch; ln -f new tools/watch
`, prepare: func(h *host) {
			h.Write(h.repo, "tools/gitconfig", "[alias]\n\tlast = log -1\n")
			h.Write(h.repo, "tools/watch", "#!/bin/sh\nexit 1\n")
			if err := os.Chmod(filepath.Join(h.repo, "tools/watch"), 0o755); err != nil {
				h.Fatal(err)
			}
			h.Git(h.repo, "add", "-A")
			h.Git(h.repo, "commit", "-q", "-m", "tools")
			h.Git(h.repo, "config", "include.path", "../tools/gitconfig")
			h.Git(h.repo, "config", "core.fsmonitor", "tools/watch")
		}},
		{name: "pointer replaced", breaks: true, removes: true, script: `
evil .evil/git/config pointer
mkdir -p .evil/git/objects .evil/git/refs && echo 'ref: refs/heads/main' >.evil/git/HEAD
for name in .git .jj; do
	rm -rf "$name"; mv "$name" moved; rmdir "$name"; unlink "$name"
	echo 'gitdir: /workspace/.evil/git' >"$name"
	echo 'gitdir: /workspace/.evil/git' >new && mv -f new "$name"
	ln -sfn .evil/git "$name"; ln -sfn .evil/git new && mv -fT new "$name"
	cp -r .evil/git/. "$name/"
	mkdir -p other && python3 -c "import ctypes, sys; l = ctypes.CDLL(None, use_errno=True); l.renameat2(-100, b'other', -100, b'$name', 2); print('exchange:', ctypes.get_errno())"
done
python3 - <<'END'
import os
for act in (lambda: os.rename('/workspace', '/moved'), lambda: os.replace('.evil/git', '.git'), lambda: os.rename('/proc/self/root/workspace/.git', 'x'),
	lambda: os.link('.evil/git/config', '.git/config2'), lambda: os.symlink('.evil/git', '/proc/self/cwd/.git')):
	try: act()
	except OSError as e: print(e)
END
`, found: []string{".evil"}},
		{name: "hooks in the tree", breaks: true, script: `
for hook in pre-commit commit-msg post-checkout post-index-change post-commit prepare-commit-msg reference-transaction; do
	script ".husky/_/$hook" husky; script "new" husky && mv -f new ".husky/_/$hook"; ln -sf ../../new2 ".husky/_/$hook"
done
mv .husky husky2; rm -rf .husky; mv .husky/_ .husky/old; mkdir -p .husky/_; script .husky/_/pre-commit husky; script .husky/pre-commit husky
`, prepare: func(h *host) {
			h.Write(h.repo, ".husky/_/pre-commit", "#!/bin/sh\n. ./.husky/pre-commit\n")
			h.Write(h.repo, ".husky/pre-commit", "true\n")
			if err := os.Chmod(filepath.Join(h.repo, ".husky/_/pre-commit"), 0o755); err != nil {
				h.Fatal(err)
			}
			h.Git(h.repo, "add", "-A")
			h.Git(h.repo, "commit", "-q", "-m", "husky")
			h.Git(h.repo, "config", "core.hooksPath", ".husky/_")
		}},
		{name: "submodules", breaks: true, script: submodulesScript, found: []string{".gitmodules", "sub"}},
		{name: "alternates grafts and refs that are links", breaks: true, script: `
git commit -q --allow-empty -m before
for dir in "$(git rev-parse --git-dir)" .jj/repo/store/git; do
	[ -d "$dir" ] || continue
	mkdir -p "$dir/info" "$dir/refs/heads" "$dir/refs/tags" "$dir/objects/info"
	printf '/etc\n../../../../../../../../etc\n"/proc/self/root"\n/workspace/.evil/objects\n' >>"$dir/objects/info/alternates"
	echo ext::sh >"$dir/objects/info/http-alternates"
	git rev-parse HEAD >"$dir/info/grafts"; cp "$dir/info/grafts" "$dir/shallow"
	ln -sf /etc/shadow "$dir/refs/heads/link"; ln -sfn / "$dir/refs/heads/folder"; ln -s ../../../../../../../etc/passwd "$dir/refs/tags/passwd"
	mkfifo "$dir/refs/heads/pipe" "$dir/objects/pack/pack-0000000000000000000000000000000000000000.pack" "$dir/COMMIT_EDITMSG.pipe"
	echo 'ref: refs/heads/../../../../config' >"$dir/refs/heads/up"; echo 'ref: refs/heads/loop' >"$dir/refs/heads/loop"
	printf '%s refs/heads/../../hooks/x\n%s refs/heads/\033[31m\n' "$(git rev-parse HEAD)" "$(git rev-parse HEAD)" >>"$dir/packed-refs"
	ln -sf /etc/passwd "$dir/logs/evil"
	ln -sf /dev/zero "$dir/objects/info/commit-graph"; ln -sf /dev/zero "$dir/objects/pack/multi-pack-index"
	head -c 100000 /dev/urandom >"$dir/index.lock"
done
`},
		{name: "mounts", breaks: true, script: `
evil .evil/git/config mounted
mkdir -p .evil/git/objects .evil/git/refs below && echo 'ref: refs/heads/main' >.evil/git/HEAD
umount .git; umount -l .git; umount -l /workspace/.git /workspace
mount --bind .evil/git .git; mount --move .git below; mount -o remount,rw,bind /run/repositories
unshare -Urm sh -c 'umount -l /workspace/.git; mount --bind /workspace below; cp -r .evil/git/. below/.git/; mount --move /workspace/.git /mnt; cp .evil/git/config /workspace/.git/config'
unshare -Urm sh -c 'mount --make-rprivate /; umount -R /workspace; ls -a /workspace; cp -r /workspace/.evil/git/config /workspace/.git/config'
for root in /proc/*/root /proc/*/cwd /proc/1/root/workspace /proc/self/root/workspace; do
	[ ! -e "$root/.git" ] || cp .evil/git/config "$root/.git/config"
done
ls /run/repositories/* && for o in /run/repositories/*/objects*; do echo x >"$o/info/alternates"; rm -rf "$o/pack"; chmod -R u+w "$o"; touch "$o/planted"; done
`, found: []string{".evil"}},
		{name: "commondir and pointers in the metadata", breaks: true, script: `
evil evil.git/config commondir
mkdir -p evil.git/objects evil.git/refs && echo 'ref: refs/heads/main' >evil.git/HEAD
for dir in .git "$(git rev-parse --git-dir)" /run/repositories/*/git; do
	[ -d "$dir" ] || continue
	echo /workspace/evil.git >"$dir/commondir"
	echo /workspace/evil.git >"$dir/gitdir"
	ln -sf /workspace/evil.git/config "$dir/config"
	mkdir -p "$dir/worktrees/evil" "$dir/modules/sub"
	cp -r evil.git/. "$dir/modules/sub/"
	echo /workspace/evil.git >"$dir/worktrees/evil/commondir"
done
[ ! -d .jj ] || { rm -rf .jj/repo; echo /workspace/evil.jj/repo >.jj/repo; evil_jj evil.jj/repo/config.toml jj-repo; }
`, found: []string{"evil.git"}},
		{name: "metadata that never ends", breaks: true, script: `
dir=$(git rev-parse --git-dir)
[ -d "$dir" ] || exit 0
rm -f "$dir/HEAD" "$dir/packed-refs"; mkfifo "$dir/HEAD" "$dir/packed-refs"
mkdir -p "$dir/refs/heads/$(printf 'd/%.0s' $(seq 500))"
`},
	}
}

// nestedScript plants repositories below the root, committed and not.
const nestedScript = `
for dir in inner deep/er/inner; do
	mkdir -p "$dir" && (cd "$dir" && git init -q && git commit -q --allow-empty -m inner)
	git add "$dir" 2>/dev/null
	evil "$dir/.git/config" nested
	for hook in pre-commit post-checkout post-index-change fsmonitor-watchman; do script "$dir/.git/hooks/$hook" nested-hook; done
done
mkdir -p bare/objects bare/refs pointing && echo 'ref: refs/heads/main' >bare/HEAD
evil bare/config planted-bare
set_in bare/config core.bare false
mkdir bare/work; set_in bare/config core.worktree work
echo 'gitdir: ../bare' >pointing/.git
mkdir -p inner/.jj/repo && evil_jj inner/.jj/repo/config.toml nested-jj
git commit -qm 'gitlinks' || jj commit -m nested
echo more >>inner/file
`

// submodulesScript declares submodules that update by a command, with gitlinks.
const submodulesScript = `
mkdir -p sub && (cd sub && git init -q && git commit -q --allow-empty -m sub)
git add sub 2>/dev/null
(cd / && git config -f /workspace/.gitmodules submodule.sub.path sub)
(cd / && git config -f /workspace/.gitmodules submodule.sub.url 'ext::sh -c "touch%S'"$CANARY"'/gitmodules-url"')
(cd / && git config -f /workspace/.gitmodules submodule.sub.update "!$(hit gitmodules-update)")
(cd / && git config -f /workspace/.gitmodules submodule.../../evil.path docs)
(cd / && git config -f /workspace/.gitmodules submodule.dash.url "-u$(hit gitmodules-dash)")
(cd / && git config -f /workspace/.gitmodules submodule.dash.path dash)
evil sub/.git/config submodule
git update-index --add --cacheinfo 160000,"$(git rev-parse HEAD)",dash
git add .gitmodules && git commit -qm submodules
`
