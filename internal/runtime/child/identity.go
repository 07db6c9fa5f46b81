package child

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"forage"
)

// idMaps says which of the host's users and groups there is inside: one of each.
type idMaps struct {
	who forage.Identity
	// root: the caller is root and becomes another on the way in.
	root bool
	// subgid is a subordinate group of the caller's, with which the supplementary
	// groups can be dropped. 0 is none.
	subgid int
	// Others' ids for user and group 0 inside, which a Container's programs are; 0 is none.
	zeroUID, zeroGID int
}

// apply has Go write the maps and change the identity when root calls; an
// ordinary user's maps are written by write, while the child already starts.
func (m idMaps) apply(attr *syscall.SysProcAttr) {
	if !m.root {
		return
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: m.who.UID, HostID: m.who.HostUID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: m.who.GID, HostID: m.who.HostGID, Size: 1}}
	if m.zeroUID != 0 {
		attr.UidMappings = append(attr.UidMappings, syscall.SysProcIDMap{HostID: m.zeroUID, Size: 1})
		attr.GidMappings = append(attr.GidMappings, syscall.SysProcIDMap{HostID: m.zeroGID, Size: 1})
	}
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: uint32(m.who.UID), Gid: uint32(m.who.GID)}
}

// write gives the process its ids: user_namespaces(7), "Defining user and group
// ID mappings". It says whether the process has to drop its supplementary groups itself.
func (m idMaps) write(ctx context.Context, pid int) (dropGroups bool, err error) {
	if m.root {
		return false, nil
	}
	if m.zeroUID != 0 {
		return true, m.mapZero(ctx, pid)
	}
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	uids := fmt.Sprintf("%d %d 1\n", m.who.UID, m.who.HostUID)
	if err := writeFile(proc+"uid_map", uids); err != nil {
		return false, fmt.Errorf("mapping the user: %w", err)
	}
	if m.subgid != 0 && m.mapGroups(ctx, pid) == nil {
		return true, nil
	}
	// Without newgidmap the groups stay: what they may read on the host, they may read
	// inside, of what is mounted there. Check says so.
	if err := writeFile(proc+"setgroups", "deny"); err != nil {
		return false, fmt.Errorf("denying setgroups: %w", err)
	}
	gids := fmt.Sprintf("%d %d 1\n", m.who.GID, m.who.HostGID)
	if err := writeFile(proc+"gid_map", gids); err != nil {
		return false, fmt.Errorf("mapping the group: %w", err)
	}
	return false, nil
}

func writeFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(text)
	return err
}
