// Package idle gives back the memory that a process took to start and hardly needs again. When that
// is, its caller knows.
package idle

import (
	"bytes"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"
)

// settleTime is when starting is over and idling may begin.
const settleTime = time.Second

// Settle gives back, once and a while from now, what starting took.
func Settle() {
	time.AfterFunc(settleTime, func() {
		files := fileMappings()
		debug.FreeOSMemory()
		drop(files)
	})
}

// drop unmaps pages that are as they are in their file. The kernel maps those that are used again.
func drop(mappings [][2]uintptr) {
	for _, m := range mappings {
		unix.Syscall(unix.SYS_MADVISE, m[0], m[1]-m[0], unix.MADV_DONTNEED) // or they stay
	}
}

// fileMappings are where this program and its libraries are mapped, from and to, and no page of it
// is another than in the file: one with relocations would be lost.
func fileMappings() (clean [][2]uintptr) {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil
	}
	var at [2]uintptr // the mapping that the lines are about
	var file bool     // which can't be written to
	for line := range bytes.Lines(text) {
		if line[0] >= 'a' || line[0] <= '9' { // an address: all else begins with a capital
			var perms, offset, device string
			var inode int
			n, _ := fmt.Sscanf(string(line), "%x-%x %s %s %s %d", &at[0], &at[1], &perms, &offset, &device, &inode)
			file = n == 6 && inode != 0 && perms[1] != 'w'
			continue
		}
		if kib, found := bytes.CutPrefix(line, []byte("Anonymous:")); found && file && string(bytes.TrimSpace(kib)) == "0 kB" {
			clean = append(clean, at)
		}
	}
	return clean
}
