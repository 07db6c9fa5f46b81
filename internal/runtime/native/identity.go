package native

import (
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
	// subgid is a subordinate group of the caller's; with one, newgidmap(1) may
	// write the map in a way that allows setgroups(2). 0 is none.
	subgid int
}

// apply has Go write the maps and change the identity when root calls; an
// ordinary user's maps are written by write, while the child already starts.
func (m idMaps) apply(attr *syscall.SysProcAttr) {
	if !m.root {
		return
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: m.who.UID, HostID: m.who.HostUID, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: m.who.GID, HostID: m.who.HostGID, Size: 1}}
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: uint32(m.who.UID), Gid: uint32(m.who.GID)}
}

// write gives the process its ids: user_namespaces(7), "Defining user and group ID mappings".
func (m idMaps) write(pid int) error {
	if m.root {
		return nil
	}
	proc := "/proc/" + strconv.Itoa(pid) + "/"
	uids := fmt.Sprintf("%d %d 1\n", m.who.UID, m.who.HostUID)
	if err := writeFile(proc+"uid_map", uids); err != nil {
		return fmt.Errorf("mapping the user: %w", err)
	}
	if err := writeFile(proc+"setgroups", "deny"); err != nil {
		return fmt.Errorf("denying setgroups: %w", err)
	}
	gids := fmt.Sprintf("%d %d 1\n", m.who.GID, m.who.HostGID)
	if err := writeFile(proc+"gid_map", gids); err != nil {
		return fmt.Errorf("mapping the group: %w", err)
	}
	return nil
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

// identify checks that the sandbox's identity is one that this caller can give.
func identify(who forage.Identity) (idMaps, error) {
	m := idMaps{who: who, root: os.Geteuid() == 0}
	switch {
	case who.UID <= 0 || who.GID <= 0:
		return m, forage.Errorf(forage.ErrUnsupported, "the agent can't be root inside (uid %d, gid %d)", who.UID, who.GID)
	case m.root && (who.HostUID <= 0 || who.HostGID <= 0):
		return m, forage.WithHint(
			forage.Errorf(forage.ErrUnsupported, "the agent can't be root on the host (uid %d, gid %d)", who.HostUID, who.HostGID),
			"name an ordinary user in the configuration: user = \"...\"")
	case !m.root && (who.HostUID != os.Geteuid() || who.HostGID != os.Getegid()):
		return m, forage.Errorf(forage.ErrUnsupported,
			"only root can run a sandbox as another user (uid %d, gid %d)", who.HostUID, who.HostGID)
	}
	return m, nil
}
