package native

import (
	"fmt"
	"os"

	"forage/internal/mount"
)

// ownership says whose files on disk the agent takes for its own.
type ownership struct {
	uid, gid int
	mapped   bool
}

// detached makes a mount of what fd is open on, for root to hand to a child
// that is somebody else. With an owner, see mount.Mapped.
func (m idMaps) detached(fd int, t tree, owner ownership) (*os.File, error) {
	attrs := uint64(mount.ReadOnly)
	if t.Writable {
		attrs = mount.Inert
	}
	inside := mount.Owner{UID: m.who.HostUID, GID: m.who.HostGID}
	disk := inside
	if owner.mapped {
		disk = mount.Owner{UID: owner.uid, GID: owner.gid}
	}
	f, err := mount.Mapped(fd, attrs, disk, inside)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Source, err)
	}
	return f, nil
}
