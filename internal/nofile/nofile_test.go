package nofile_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/nofile"
)

func TestMain(m *testing.M) {
	if os.Getenv("NOFILE_TEST") == "" {
		os.Exit(m.Run())
	}
	var raised unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &raised)
	fmt.Print(nofile.Inherited().Soft, raised.Cur > nofile.Inherited().Soft)
}

func TestInherited(t *testing.T) {
	c := exec.Command("/bin/sh", "-c", `ulimit -Sn 321; exec "$0"`, "/proc/self/exe")
	c.Args[3], _ = os.Executable()
	c.Env = []string{"NOFILE_TEST=1"}
	if said, err := c.Output(); string(said) != "321 true" || err != nil {
		t.Errorf("a process that was started with 321 says %q, %v", said, err)
	}
}
