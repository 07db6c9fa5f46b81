// Package image turns the root filesystem that a template names into folders
// that a runtime can put under an overlay: a folder as it is, an OCI layout or
// docker-archive from disk, or an image pulled from a registry.
//
// An image's layers are applied in order into one tree, unpacked once and kept
// in a cache under the chain ID of its layers (OCI image-spec, config.md
// "Layer ChainID"): images with the same layers share a tree, whatever their
// names. One merged tree, and not a folder per layer, because overlayfs tells
// deletions by character devices, which an ordinary user can't make.
//
// Images are hostile: nothing that they say can make this package write, link
// or delete outside the tree being built, keep a set-id bit, make a device, or
// fill more than Limits. Nothing of an image is run, and the package mounts
// nothing: that, and whose identity owns what inside, is the runtime's part.
package image

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"forage"
	"forage/internal/rootfs"
)

// Limits bound what one image may take.
type Limits struct {
	Bytes   int64 // unpacked, all layers together; also the bound of what is downloaded
	Entries int64 // files, folders and links made, all layers together

	progress func(done, total int64)
}

func (l Limits) orDefault() Limits {
	// These hold the largest images in common use (CUDA tool kits) several times over.
	def := Limits{Bytes: 64 << 30, Entries: 4 << 20}
	if l.Bytes <= 0 {
		l.Bytes = def.Bytes
	}
	if l.Entries <= 0 {
		l.Entries = def.Entries
	}
	return l
}

// Resolve gives the folders to overlay for fs, uppermost first, making them in
// the cache at cacheDir where need be, and the PATH that an image wants, if it says one. It may be
// called by several processes at once, for the same image too: one unpacks, the others wait.
// Folders in the cache must not be changed, and stay until Prune. A reference that was pulled
// before needs no network. Zero fields of limits have defaults.
//
// A reference or path that names no image is ErrUsage, an image for other
// processors only is ErrUnsupported, anything that goes wrong with an image ErrStart.
func Resolve(ctx context.Context, fs forage.Rootfs, cacheDir string, limits Limits) (lower []string, searchPath string, err error) {
	limits = limits.orDefault()
	var tree string
	switch fs.Kind {
	case forage.RootfsDir:
		tree, err = checkFolder(fs.Ref)
	case forage.RootfsOCI:
		tree, searchPath, err = resolveLocal(ctx, fs.Ref, cacheDir, limits)
	case forage.RootfsImage:
		tree, searchPath, err = resolveRemote(ctx, fs.Ref, cacheDir, limits)
	default:
		err = forage.Errorf(forage.ErrUsage, "root filesystem %q is not an image or a folder", fs.Kind)
	}
	if err != nil {
		return nil, "", err
	}
	return []string{tree}, searchPath, nil
}

// Pull is Resolve that tells progress of what it downloads, in bytes, from several goroutines.
func Pull(ctx context.Context, fs forage.Rootfs, cacheDir string, progress func(done, total int64)) (lower []string, err error) {
	lower, _, err = Resolve(ctx, fs, cacheDir, Limits{progress: progress})
	return lower, err
}

// checkFolder accepts a folder as a root filesystem and gives its path without links.
func checkFolder(ref string) (string, error) {
	abs, err := filepath.Abs(ref)
	if err == nil {
		abs, err = filepath.EvalSymlinks(abs)
	}
	if err != nil {
		return "", forage.Errorf(forage.ErrUsage, "root filesystem dir:%s: %w", ref, err)
	}
	names, err := os.ReadDir(abs)
	if err != nil {
		return "", forage.Errorf(forage.ErrUsage, "root filesystem dir:%s: %w", ref, err)
	}
	if len(names) == 0 {
		return "", forage.Errorf(forage.ErrUsage, "root filesystem dir:%s: the folder is empty", ref)
	}
	home, err := os.UserHomeDir()
	if real, realErr := filepath.EvalSymlinks(home); realErr == nil {
		home = real
	}
	if abs == "/" || err == nil && rootfs.Within(home, abs) {
		return "", forage.WithHint(
			forage.Errorf(forage.ErrRefused, "root filesystem dir:%s would show your home folder to the sandbox", ref),
			`rootfs = "host" is the safe view of this machine`)
	}
	return abs, nil
}

// searchPath is the PATH that an image says, without relative folders: those would be
// looked up in whatever folder the agent is in.
func searchPath(c v1.Config) (found string) {
	for _, kv := range c.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			dirs := slices.DeleteFunc(strings.Split(printable(v), ":"), func(dir string) bool { return !path.IsAbs(dir) })
			found = strings.Join(dirs, ":")
		}
	}
	return found
}

// printable is s, or "" when it has control bytes or is too long to be meant.
func printable(s string) string {
	if len(s) > 4096 || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return ""
	}
	return s
}

// badImage is an error about what an image holds.
func badImage(format string, args ...any) error {
	return forage.Errorf(forage.ErrStart, "bad image: %w", fmt.Errorf(format, args...))
}
