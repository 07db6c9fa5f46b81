package child

import (
	"fmt"
	"os"

	"forage/internal/mount"
)

func (m idMaps) inside() mount.Owner { return mount.Owner{UID: m.who.HostUID, GID: m.who.HostGID} }

// detached makes a mount of what fd is open on, for root to hand to a child of another user. What
// belongs to disk belongs to the agent inside, see mount.Mapped.
func (m idMaps) detached(fd int, t tree, disk mount.Owner) (*os.File, error) {
	attrs := uint64(mount.ReadOnly)
	if t.Writable {
		attrs = mount.Inert
	}
	f, err := mount.Mapped(fd, attrs, disk, m.inside())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Source, err)
	}
	return f, nil
}
