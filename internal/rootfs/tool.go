package rootfs

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
)

// Tool is a command that the caller has outside the system's folders, as it
// is shown inside: at its own path, read-only, with the tree it belongs to and
// nothing around it.
type Tool struct {
	Mounts []forage.Mount
	Links  []forage.Link
	Dirs   []string // folders to look for commands in, first ones first
}

// toolDepth bounds how many interpreters and launchers lead to one another.
const toolDepth = 8

// HostTool finds command on the caller's PATH (folders joined by ':'). The
// zero Tool is for a command that is not there, or that the host view shows anyhow.
func HostTool(command, callerPath string) (Tool, error) {
	s := &toolSearch{path: filepath.SplitList(callerPath)}
	if err := s.command(command, 0); err != nil {
		return Tool{}, fmt.Errorf("making %s visible: %w", command, err)
	}
	return s.tool, nil
}

type toolSearch struct {
	path []string
	tool Tool
}

// command adds what running name takes.
func (s *toolSearch) command(name string, depth int) error {
	if depth > toolDepth {
		return fmt.Errorf("more than %d programs start one another", toolDepth)
	}
	path := s.lookup(name)
	if path == "" || inSystem(path) {
		return nil
	}
	if target, ok := pyenvTarget(path); ok {
		path = target
	}
	return s.program(path, depth)
}

// lookup is where the caller's shell would find name; "" is nowhere.
func (s *toolSearch) lookup(name string) string {
	if filepath.IsAbs(name) {
		if executable(name) {
			return filepath.Clean(name)
		}
		return ""
	}
	if name == "" || strings.ContainsRune(name, '/') {
		return "" // relative to the workspace, which is visible
	}
	for _, dir := range s.path {
		if filepath.IsAbs(dir) && executable(filepath.Join(dir, name)) {
			return filepath.Join(dir, name)
		}
	}
	return ""
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// program adds the program at path: the links that lead to it, its tree, and
// whatever interprets it.
func (s *toolSearch) program(path string, depth int) error {
	real, err := s.follow(path)
	if err != nil {
		return err
	}
	if !inSystem(real) {
		s.show(treeOf(real))
	}
	interpreter, err := interpreterOf(real)
	if err != nil || interpreter == "" {
		return err
	}
	return s.command(interpreter, depth+1)
}

// follow adds the links that lead from path to a file, and returns the file.
// Their folders are resolved, so that no folder has to be a link inside.
func (s *toolSearch) follow(path string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, filepath.Base(path))
	if !slices.Contains(s.tool.Dirs, dir) && !inSystem(dir) {
		s.tool.Dirs = append(s.tool.Dirs, dir)
	}
	for range 40 { // as many as the kernel follows, path_resolution(7)
		target, err := os.Readlink(path)
		if err != nil {
			return path, nil // the file itself
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		if dir, err = filepath.EvalSymlinks(filepath.Dir(target)); err != nil {
			return "", err
		}
		target = filepath.Join(dir, filepath.Base(target))
		if !inSystem(path) {
			s.link(path, target)
		}
		path = target
	}
	return "", errors.New("too many links")
}

func (s *toolSearch) link(path, target string) {
	for _, mount := range s.tool.Mounts {
		if Within(path, mount.Target) {
			return // it is there with the tree
		}
	}
	link := forage.Link{Path: path, Target: target}
	if !slices.Contains(s.tool.Links, link) {
		s.tool.Links = append(s.tool.Links, link)
	}
}

// show adds a tree, unless one that holds it is shown.
func (s *toolSearch) show(tree string) {
	for _, mount := range s.tool.Mounts {
		if Within(tree, mount.Target) {
			return
		}
	}
	s.tool.Mounts = append(s.tool.Mounts, forage.Mount{Source: tree, Target: tree, System: true})
	s.tool.Links = slices.DeleteFunc(s.tool.Links, func(l forage.Link) bool { return Within(l.Path, tree) })
}

// interpreterOf is the program that a script's first line names (execve(2)):
// an absolute path, or the name that env looks up. "" is for what is no script.
func interpreterOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	head := make([]byte, 256)
	n, err := file.Read(head)
	if n == 0 || err != nil {
		return "", nil
	}
	line, isScript := bytes.CutPrefix(head[:n], []byte("#!"))
	if !isScript {
		return "", nil
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	words := strings.Fields(string(line))
	if len(words) == 0 {
		return "", nil
	}
	if filepath.Base(words[0]) != "env" {
		return words[0], nil
	}
	for _, word := range words[1:] {
		if !strings.HasPrefix(word, "-") && !strings.Contains(word, "=") {
			return word, nil
		}
	}
	return "", nil
}

// inSystem says whether the host view shows path anyhow.
func inSystem(path string) bool {
	for _, tree := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix/store", "/gnu/store", "/run/current-system"} {
		if Within(path, tree) {
			return true
		}
	}
	return false
}
