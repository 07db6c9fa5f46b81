package child

import (
	"bufio"
	"fmt"
	"os"
	"strings"

	"forage/internal/rootfs"
)

// socketsBelow returns the unix sockets below System mounts, as the kernel lists
// those of this network namespace: proc_pid_net(5). Such folders are too large to
// be looked through, and nothing but the host's own programs puts something there.
func socketsBelow(mounts []tree) ([]string, error) {
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
			if m.System && rootfs.Within(socket, m.Source) {
				found = append(found, m.Target+socket[len(m.Source):])
			}
		}
	}
	return found, lines.Err()
}
