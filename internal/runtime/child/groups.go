package child

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"

	"forage"
	"forage/internal/hostexec"
)

// A process can drop its supplementary groups only where setgroups(2) is allowed, which an ordinary
// user's namespace is not, lest a user gets rid of a group that is denied something. newgidmap(1),
// with a subordinate group of the caller's in the map, is the way that the system's administrator
// allows it. The group is mapped and used for nothing.

// spareGroup is a subordinate group of the user with one of those names, in the text of
// /etc/subgid (subgid(5)); 0 is none.
func spareGroup(text string, names ...string) int {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || !slices.Contains(names, fields[0]) {
			continue
		}
		first, err := strconv.Atoi(fields[1])
		count, countErr := strconv.Atoi(fields[2])
		if err == nil && countErr == nil && first > 0 && count > 0 {
			return first
		}
	}
	return 0
}

// findGroups looks for what it takes to drop the caller's supplementary groups. others: there are
// such.
func (m *idMaps) findGroups() (others bool, err error) {
	if m.root {
		return false, nil // and may drop them
	}
	groups, err := os.Getgroups()
	if err != nil {
		return false, fmt.Errorf("asking for the caller's groups: %w", err)
	}
	if !slices.ContainsFunc(groups, func(g int) bool { return g != os.Getegid() }) {
		return false, nil
	}
	m.subgid = subordinate("/etc/subgid")
	return true, nil
}

// subordinate is a subordinate id of the caller's, which file lists; 0 is none.
func subordinate(file string) int {
	uid := strconv.Itoa(os.Geteuid())
	names := []string{uid}
	if who, err := user.LookupId(uid); err == nil {
		names = append(names, who.Username)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	return spareGroup(string(text), names...)
}

// mapGroups has newgidmap write the map of groups.
func (m idMaps) mapGroups(ctx context.Context, pid int) error {
	spare := 65533
	if m.who.GID == spare {
		spare--
	}
	argv := []string{"newgidmap", strconv.Itoa(pid)}
	for _, n := range []int{m.who.GID, m.who.HostGID, 1, spare, m.subgid, 1} {
		argv = append(argv, strconv.Itoa(n))
	}
	if _, err := hostexec.Run(ctx, hostexec.Command{Argv: argv}); err != nil {
		return fmt.Errorf("mapping groups: %w", err)
	}
	return nil
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
