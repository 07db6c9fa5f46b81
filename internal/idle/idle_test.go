package idle

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// resident is how much of the test program's text is mapped, in KiB.
func resident(t *testing.T) (kib int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, mapping := range strings.Split(string(text), "VmFlags:") {
		if _, after, found := strings.Cut(mapping, "\nRss:"); found && strings.Contains(mapping, " r-xp ") && strings.Contains(mapping, self) {
			n, err := strconv.Atoi(strings.Fields(after)[0])
			if err != nil {
				t.Fatal(err)
			}
			kib += n
		}
	}
	return kib
}

func TestDrop(t *testing.T) {
	before := resident(t)
	drop(fileMappings())
	if after := resident(t); before == 0 || after >= before {
		t.Errorf("%d KiB of the program were mapped, %d are now", before, after)
	}
}
