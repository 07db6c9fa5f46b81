// Package direct mounts the user's own folder at /workspace. In the folder itself it makes nothing; a repository
// that is at its root gets private metadata, which is mounted over the user's own inside. It refuses
// folders that would show the sandbox more than a project, or let it write to a repository's metadata.
package direct

import (
	"context"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/rootfs"
	"forage/internal/workspace"
)

// Provider is the direct workspace.Provider.
type Provider struct {
	Places workspace.Places
}

var _ workspace.Provider = Provider{}

// Plan resolves the folder once: what is mounted is the path that was checked.
func (Provider) Plan(ctx context.Context, request workspace.Request) (forage.Workspace, error) {
	path, err := filepath.EvalSymlinks(request.Path)
	if err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace: %w", err)
	}
	if !info.IsDir() {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "the workspace %s is not a folder", path)
	}
	if err := unix.Access(path, unix.R_OK|unix.X_OK); err != nil {
		return forage.Workspace{}, forage.Errorf(forage.ErrUsage, "opening the workspace %s: %w", path, err)
	}
	if err := tooMuch(path, request); err != nil {
		return forage.Workspace{}, forage.WithHint(err, "go to your project's folder, or name it with -w")
	}
	w := forage.Workspace{
		Name: request.Name, Mode: forage.WorkspaceDirect, Path: path, Target: request.Target, ReadOnly: request.ReadOnly,
	}
	if err := planGit(ctx, request, &w); err != nil {
		return w, err
	}
	if w.Repository != nil && request.Existing != nil && w.Repository == request.Existing.Repository {
		return w, nil
	}
	err = planJJ(ctx, request, &w)
	return w, err
}

// tooMuch refuses a folder that holds more than a project.
func tooMuch(path string, request workspace.Request) error {
	if path == "/" {
		return forage.Errorf(forage.ErrRefused, "the workspace is /: the sandbox would see the whole host")
	}
	for _, dir := range [...]string{"/proc", "/sys", "/dev"} { // switches of the kernel, not files
		if rootfs.Within(path, dir) {
			return forage.Errorf(forage.ErrRefused, "the workspace %s is the kernel's", path)
		}
	}
	if home := workspace.Resolved(request.Home); home != "" && rootfs.Within(home, path) {
		if home == path {
			return forage.Errorf(forage.ErrRefused, "the workspace is your home folder: the sandbox would see your keys and settings")
		}
		return forage.Errorf(forage.ErrRefused, "the workspace %s holds your home folder", path)
	}
	for _, ours := range request.Ours {
		ours = workspace.Resolved(ours)
		if ours != "" && (rootfs.Within(path, ours) || rootfs.Within(ours, path)) {
			return forage.Errorf(forage.ErrRefused, "the workspace %s and Forage's own folder %s are in one another", path, ours)
		}
	}
	return nil
}
