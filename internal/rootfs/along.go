package rootfs

import (
	"debug/elf"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"forage"
)

// Along finds what an image needs to run the caller's own command: the command, and the
// interpreters of scripts. None is that the caller has no such command.
func Along(command string, caller Caller) ([]forage.HostProgram, error) {
	s := newSearch(caller)
	s.everywhere = true
	var found []forage.HostProgram
	return found, s.along(command, &found)
}

func (s *toolSearch) along(name string, found *[]forage.HostProgram) error {
	path := s.locate(name)
	if path == "" || slices.ContainsFunc(*found, func(p forage.HostProgram) bool { return p.Name == name }) {
		return nil
	}
	if len(*found) > toolDepth {
		return fmt.Errorf("more than %d programs start one another", toolDepth)
	}
	s.tool = Tool{}
	real, err := s.follow(path)
	if err != nil {
		return err
	}
	if s.caller.hostile(path) {
		return errors.New("it leads into a folder that sandboxes write to")
	}
	program := forage.HostProgram{Name: name, Links: s.tool.Links, Dir: filepath.Dir(path)}
	for _, tree := range treesOf(real, s.caller.Home) {
		program.Mounts = append(program.Mounts, forage.Mount{Source: tree, Target: tree, System: true})
		program.Links = slices.DeleteFunc(program.Links, func(l forage.Link) bool { return Within(l.Path, tree) })
	}
	if file, err := elf.Open(real); err == nil {
		defer file.Close()
		if program.Libraries, err = file.ImportedLibraries(); err != nil {
			return err
		}
		for _, segment := range file.Progs {
			if segment.Type == elf.PT_INTERP {
				interpreter := make([]byte, min(segment.Filesz, 4<<10))
				if _, err := segment.ReadAt(interpreter, 0); err != nil {
					return err
				}
				program.Needs = append(program.Needs, string(interpreter[:max(0, len(interpreter)-1)])) // it ends with a zero
			}
		}
	}
	started, err := startedBy(real)
	if err != nil {
		return err
	}
	program.Needs = append(program.Needs, slices.DeleteFunc(slices.Clone(started), func(p string) bool { return !filepath.IsAbs(p) || !inSystem(p) })...)
	*found = append(*found, program)
	for _, next := range started {
		if slices.Contains(program.Needs, next) {
			continue
		}
		if err := s.along(next, found); err != nil {
			return err
		}
	}
	return nil
}
