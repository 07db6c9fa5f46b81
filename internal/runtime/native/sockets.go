package native

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"forage"
	"forage/internal/rootfs"
)

// socketsBelow returns the unix sockets that listen somewhere below the host's
// system folders, as the kernel lists them: proc_pid_net(5). Those folders are too large to be looked
// through, and only root puts something there.
func socketsBelow(mounts []forage.Mount) ([]string, error) {
	f, err := os.Open("/proc/self/net/unix")
	if err != nil {
		return nil, fmt.Errorf("listing the host's sockets: %w", err)
	}
	defer f.Close()
	var found []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		at := strings.IndexByte(lines.Text(), '/')
		if at < 0 {
			continue
		}
		socket := lines.Text()[at:]
		for _, m := range mounts {
			if rootfs.Within(socket, m.Source) {
				found = append(found, m.Target+socket[len(m.Source):])
			}
		}
	}
	return found, lines.Err()
}
