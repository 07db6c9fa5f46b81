package limits

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"forage"
)

// cpuPeriod is the span over which processor time is counted, in microseconds: the kernel's
// default.
const cpuPeriod = 100_000

// setting is a file in a group's folder and what is written to it.
type setting struct {
	file, value string
	optional    bool // some kernels lack it
}

// folders is a group made of folders: one under cgroup v2, one for each
// controller under v1.
type folders struct{ paths []string }

func (g *folders) Ref() string {
	return refFolder + strings.Join(slices.Sorted(slices.Values(g.paths)), ":")
}

func (g *folders) Add(pid int) error {
	for _, path := range g.paths {
		if err := os.WriteFile(path+"/cgroup.procs", []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("moving process %d into its control group: %w", pid, err)
		}
	}
	return nil
}

func (g *folders) Remove() error { return removeFolders(g.paths) }

// make adds a folder with settings.
func (g *folders) make(path string, settings []setting) error {
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) {
		// A leftover. It goes if nothing is in it.
		if err = os.Remove(path); err == nil {
			err = os.Mkdir(path, 0o755)
		} else {
			err = forage.WithHint(fmt.Errorf("%w: another sandbox of this name is using it", err), "forage-ctl gc")
		}
	}
	if err != nil {
		return fmt.Errorf("making a control group: %w", err)
	}
	g.paths = append(g.paths, path)
	for _, s := range settings {
		err := os.WriteFile(filepath.Join(path, s.file), []byte(s.value), 0)
		if err != nil && !(s.optional && errors.Is(err, fs.ErrNotExist)) {
			return fmt.Errorf("setting %s: %w", s.file, err)
		}
	}
	return nil
}

// undo removes what was made before err.
func (g *folders) undo(err error) error { return errors.Join(err, g.Remove()) }

// unified makes groups in a folder of cgroup v2.
type unified struct{ parent string }

func (u unified) String() string { return "cgroup v2 below " + u.parent }

func (u unified) Apply(name string, l forage.Limits) (Group, error) {
	if err := forage.CheckName(name); err != nil {
		return nil, err
	}
	if want := wanted(l); missing(want, Host().fields(u.parent+"/cgroup.subtree_control")) != "" {
		on := "+" + strings.Join(want, " +")
		if err := os.WriteFile(u.parent+"/cgroup.subtree_control", []byte(on), 0); err != nil {
			return nil, fmt.Errorf("turning on controllers in %s: %w", u.parent, err)
		}
	}
	g := &folders{}
	if err := g.make(filepath.Join(u.parent, prefix+name), unifiedSettings(l)); err != nil {
		return nil, g.undo(err)
	}
	return g, nil
}

// unifiedSettings are l in cgroup v2's terms: Documentation/admin-guide/cgroup-v2.rst.
// Swap is no way around the limit: it is not counted in memory.max, so there is none.
func unifiedSettings(l forage.Limits) []setting {
	var list []setting
	if l.MemoryMax > 0 {
		list = append(list,
			setting{"memory.swap.max", "0", true}, // absent where the kernel does not count swap
			setting{"memory.max", strconv.FormatInt(l.MemoryMax, 10), false})
	}
	if l.CPUQuota > 0 {
		list = append(list, setting{"cpu.max", fmt.Sprintf("%d %d", l.CPUQuota*cpuPeriod/100, cpuPeriod), false})
	}
	return list
}

// legacy makes groups under cgroup v1: controller to folder.
type legacy map[string]string

func (v legacy) String() string {
	return "cgroup v1 below " + strings.Join(slices.Sorted(maps.Values(v)), " and ")
}

func (v legacy) Apply(name string, l forage.Limits) (Group, error) {
	if err := forage.CheckName(name); err != nil {
		return nil, err
	}
	settings := map[string][]setting{} // two controllers may share a hierarchy
	for _, controller := range wanted(l) {
		path := filepath.Join(v[controller], prefix+name)
		settings[path] = append(settings[path], legacySettings(controller, l)...)
	}
	g := &folders{}
	for path, list := range settings {
		if err := g.make(path, list); err != nil {
			return nil, g.undo(err)
		}
	}
	return g, nil
}

// legacySettings are l in cgroup v1's terms: Documentation/admin-guide/cgroup-v1.
// memsw counts memory and swap together, and is written after memory's own
// limit, which it can't be below.
func legacySettings(controller string, l forage.Limits) []setting {
	if controller == "cpu" {
		return []setting{
			{"cpu.cfs_period_us", strconv.Itoa(cpuPeriod), false},
			{"cpu.cfs_quota_us", strconv.FormatInt(l.CPUQuota*cpuPeriod/100, 10), false},
		}
	}
	limit := strconv.FormatInt(l.MemoryMax, 10)
	return []setting{
		{"memory.limit_in_bytes", limit, false},
		{"memory.memsw.limit_in_bytes", limit, true}, // absent with swapaccount=0:
		{"memory.swappiness", "0", true},             // then the group itself never swaps
	}
}
