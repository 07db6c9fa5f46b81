// Package rootfs plans what a sandbox sees of the host: the read-only view of
// its system folders, the files that are generated instead of the host's, the
// environment that every sandbox begins with, the certificates it trusts and
// the folders of tools that the caller has outside the system's. It only reads
// and plans; mounting is a runtime's business.
package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"forage"
)

// View is what a root filesystem is made of, beside the sandbox's own mounts.
// Everything in it is read-only inside. Sources are resolved: no part of one
// is a symbolic link.
type View struct {
	Mounts []forage.Mount // each of them System
	Links  []forage.Link
	Files  []forage.File
}

// systemTrees are shown whole where the host has them: programs, libraries and
// package stores, readable by everybody on the host. The order matters: a link
// is kept when it leads into a tree named before it.
var systemTrees = []string{
	"usr", "nix/store", "gnu/store", "opt",
	"bin", "sbin", "lib", "lib32", "lib64", "libx32",
	"usr/local", // a link out of /usr where /usr is an image
}

// systemLinks are links that lead into a system tree on some distributions
// (NixOS) and are worth having for that reason alone.
var systemLinks = []string{"run/current-system", "etc/static"}

// Host plans `rootfs = "host"`: host is the host's root (os.DirFS("/")).
// Trees that the host doesn't have are left out; a host without /usr is an error.
func Host(host fs.FS, name string, who forage.Identity) (View, error) {
	p := &planner{host: once{host, map[string]seen{}}}
	if err := p.system(); err != nil {
		return View{}, err
	}
	// Adds the allowed entries of /etc.
	for _, pattern := range etcEntries {
		names, err := []string{path.Join("etc", pattern)}, error(nil)
		if strings.Contains(pattern, "*") {
			if names, err = fs.Glob(p.host, names[0]); err != nil {
				return View{}, fmt.Errorf("reading /etc: %w", err)
			}
		}
		for _, name := range names {
			p.etcEntry(name)
		}
	}

	p.view.Links = append(p.view.Links, forage.Link{Path: "/etc/mtab", Target: "/proc/self/mounts"})
	p.view.Files = append(Generated(name, who, Shell(host)), hostOnly()...)
	return p.view, nil
}

// System plans the least in which a program of the host's runs: the system's folders and what its
// linker reads.
func System(host fs.FS) (View, error) {
	p := &planner{host: host}
	if err := p.system(); err != nil {
		return View{}, err
	}
	for _, name := range linkerEntries {
		p.etcEntry("etc/" + name)
	}
	return p.view, nil
}

// once is a file system that looks at each path once: most are in the same few folders.
type once struct {
	fs.FS
	seen map[string]seen
}

type seen struct {
	info fs.FileInfo
	err  error
}

func (o once) Lstat(name string) (fs.FileInfo, error) {
	s, known := o.seen[name]
	if !known {
		s.info, s.err = fs.Lstat(o.FS, name)
		o.seen[name] = s
	}
	return s.info, s.err
}

func (o once) ReadLink(name string) (string, error) { return fs.ReadLink(o.FS, name) }

type planner struct {
	host fs.FS
	view View
}

// system shows the system's trees, and the links into them.
func (p *planner) system() error {
	for _, tree := range systemTrees {
		if err := p.tree(tree); err != nil {
			return err
		}
	}
	for _, link := range systemLinks {
		if err := p.systemLink(link); err != nil {
			return err
		}
	}
	return nil
}

// tree shows the folder at name (relative to the root). A link into a tree
// that is shown already stays a link; the target of any other link is shown at its
// own place, beside the link.
func (p *planner) tree(name string) error {
	info, err := fs.Lstat(p.host, name)
	if errors.Is(err, fs.ErrNotExist) && name != "usr" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("looking at /%s: %w", name, err)
	}
	if info.IsDir() {
		if !p.shown("/" + name) {
			p.mount("/"+name, "/"+name)
		}
		return nil
	}
	if info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	target, info, err := resolve(p.host, name)
	if err != nil || !info.IsDir() {
		return nil // dangling, or not what it should be: nothing to show
	}
	if !p.shown(target) {
		if tooWide(target) {
			return nil
		}
		p.mount(target, target)
	}
	if !p.shown("/" + name) { // a link within a tree is there with the tree
		text, err := fs.ReadLink(p.host, name)
		if err != nil {
			return fmt.Errorf("reading the link /%s: %w", name, err)
		}
		p.view.Links = append(p.view.Links, forage.Link{Path: "/" + name, Target: text})
	}
	return nil
}

func (p *planner) systemLink(name string) error {
	info, err := fs.Lstat(p.host, name)
	if err != nil || info.Mode()&fs.ModeSymlink == 0 {
		return nil
	}
	if target, _, err := resolve(p.host, name); err == nil && p.shown(target) {
		p.view.Links = append(p.view.Links, forage.Link{Path: "/" + name, Target: target})
	}
	return nil
}

func (p *planner) mount(source, target string) {
	p.view.Mounts = append(p.view.Mounts, forage.Mount{Source: source, Target: target, System: true, Optional: Within(target, "/etc")})
}

// shown says whether a mount of the view contains path.
func (p *planner) shown(path string) bool {
	return slices.ContainsFunc(p.view.Mounts, func(m forage.Mount) bool { return Within(path, m.Target) })
}

// Within says whether path is dir or below it. Both are absolute and clean.
func Within(path, dir string) bool {
	return path == dir || dir == "/" || strings.HasPrefix(path, dir) && path[len(dir)] == '/'
}

// resolve follows every link on the way to name, which is relative to the root of fsys,
// and returns the absolute path that is left and what is there.
func resolve(fsys fs.FS, name string) (string, fs.FileInfo, error) {
	todo := strings.Split(name, "/")
	at, links := ".", 0
	info, err := fs.Lstat(fsys, ".")
	for len(todo) > 0 && err == nil {
		part := todo[0]
		todo = todo[1:]
		switch part {
		case "", ".":
			continue
		case "..":
			at = path.Dir(at)
			info, err = fs.Lstat(fsys, at)
			continue
		}
		next := path.Join(at, part)
		if info, err = fs.Lstat(fsys, next); err != nil {
			break
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", nil, fmt.Errorf("/%s: too many symbolic links", name)
		}
		var text string
		if text, err = fs.ReadLink(fsys, next); err != nil {
			break
		}
		if path.IsAbs(text) {
			at = "."
		}
		todo = append(strings.Split(text, "/"), todo...)
		info, err = fs.Lstat(fsys, at)
	}
	if err != nil {
		return "", nil, err
	}
	return path.Join("/", at), info, nil
}
