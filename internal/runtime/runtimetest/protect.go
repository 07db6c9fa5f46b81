package runtimetest

import (
	"os"
	"path/filepath"

	"forage"
)

// tree makes files below dir with their own names as content.
func (h *host) tree(dir string, names ...string) {
	h.Helper()
	for _, name := range names {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			h.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(name), 0o644); err != nil {
			h.Fatal(err)
		}
	}
}

// unchanged fails unless files below dir still hold their own names.
func (h *host) unchanged(dir string, names ...string) {
	h.Helper()
	for _, name := range names {
		if text, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(text) != name {
			h.Errorf("%s is %q now (%v)", name, text, err)
		}
	}
}

// protectedStays: what Spec.Protect names can't be changed, replaced or moved away, alone or with a
// folder above it.
func protectedStays(h *host) {
	names := []string{".envrc", ".vscode/tasks.json", "tools/hooks/pre-commit"}
	h.tree(h.workspace, names...)
	if os.Getuid() == 0 { // or the agent could not write there in the first place
		h.give(h.workspace)
	}
	plan := h.plan("box")
	for _, name := range []string{".envrc", ".vscode", "tools/hooks", ".absent", "gone/.absent"} {
		plan.Spec.Protect = append(plan.Spec.Protect, forage.WorkspacePath+"/"+name)
	}
	b := h.start(plan)
	b.works("echo ordinary > file && mkdir -p tools/other && echo x > tools/other/x")
	for _, name := range []string{".envrc", ".vscode/tasks.json", "tools/hooks/pre-commit", "tools/hooks/new", ".vscode/new"} {
		b.fails("echo evil > " + name)
		b.fails("echo evil > file; mv -f file " + name)
		b.fails("ln -f /workspace/tools/other/x " + name)
	}
	for _, name := range []string{".envrc", ".vscode", "tools/hooks", "tools"} {
		b.fails("mv " + name + " away")
		b.fails("mkdir -p other; python3 -c \"import ctypes, sys; sys.exit(ctypes.CDLL(None).renameat2(-100, b'" + name + "', -100, b'other', 2) != 0)\"")
		b.fails("rm -rf " + name)
		b.fails("umount -l " + name)
		b.fails("mount --bind /tmp " + name)
	}
	b.fails("python3 -c \"import os; os.open('/proc/self/root/workspace/.envrc', os.O_RDWR)\"")
	for _, change := range []string{"python3 -c \"import os; os.truncate('.envrc', 0)\"", "chmod 777 .envrc || touch .envrc || setfattr -n user.x -v y .envrc"} {
		if h.OwnKernel {
			b.sh(change) // it may say that it has
		} else {
			b.fails(change)
		}
	}
	if info, err := os.Stat(filepath.Join(h.workspace, ".envrc")); err != nil || info.Mode().Perm() != 0o644 {
		h.Errorf(".envrc is %v now (%v)", info.Mode(), err)
	}
	h.unchanged(h.workspace, names...)
	if _, err := os.Lstat(filepath.Join(h.workspace, "gone")); err == nil {
		h.Error("something was made on the host for what is not there")
	}
}

// metadataStays: metadata of the sandbox's own stands over the host's, also deeper in the tree, and
// objects are read-only.
func metadataStays(h *host) {
	private, objects := filepath.Join(h.state, "private"), filepath.Join(h.state, "objects")
	h.tree(h.workspace, ".git/config", "libs/deep/sub/.git")
	h.tree(private, "git/config", "pointer")
	h.tree(objects, "pack")
	if os.Getuid() == 0 {
		h.give(h.workspace, private)
	}
	plan := h.plan("box")
	plan.Spec.Mounts = append(plan.Spec.Mounts,
		forage.Mount{Source: private + "/git", Target: forage.WorkspacePath + "/.git", Writable: true},
		forage.Mount{Source: private + "/pointer", Target: forage.WorkspacePath + "/libs/deep/sub/.git"},
		forage.Mount{Source: objects, Target: forage.RepositoriesPath + "/main/objects"})
	b := h.start(plan)
	b.works("echo own > .git/own && mkdir .git/hooks && echo x > .git/hooks/pre-commit")
	b.fails("echo evil > " + forage.RepositoriesPath + "/main/objects/pack")
	for _, name := range []string{".git", "libs", "libs/deep", "libs/deep/sub", "libs/deep/sub/.git"} {
		b.fails("mv " + name + " away")
		b.fails("rm -rf " + name)
	}
	b.fails("echo evil > libs/deep/sub/.git")
	h.unchanged(h.workspace, ".git/config", "libs/deep/sub/.git")
	h.unchanged(objects, "pack")
	if entries, err := os.ReadDir(filepath.Join(h.workspace, ".git")); err != nil || len(entries) != 1 {
		h.Errorf("the host's .git has %v (%v)", entries, err)
	}
}

// give makes files the sandbox's user's own, where root tests.
func (h *host) give(dirs ...string) {
	h.Helper()
	who := h.plan("box").Spec.Identity
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, who.HostUID, who.HostGID)
		})
		if err != nil {
			h.Fatal(err)
		}
	}
}
