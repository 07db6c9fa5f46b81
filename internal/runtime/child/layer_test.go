package child

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
)

// TestLayered: what is written goes to the sandbox's own layer, and nothing of the host's is
// changed or answers.
func TestLayered(t *testing.T) {
	cache := makeTree(t, "a", "deep/b", "gone/c")
	must(t, os.Chmod(filepath.Join(cache, "deep"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(cache, "deep"), 0o755) })
	listener, err := net.Listen("unix", filepath.Join(cache, "socket"))
	must(t, err)
	defer listener.Close()
	must(t, os.Chmod(filepath.Join(cache, "socket"), 0o777))
	must(t, unix.Mkfifo(filepath.Join(cache, "fifo"), 0o666))
	fifo, err := os.OpenFile(filepath.Join(cache, "fifo"), os.O_RDWR|unix.O_NONBLOCK, 0)
	must(t, err)
	defer fifo.Close()
	chownTree(t, cache)
	before := listing(t, cache)
	spec := with(baseSpec(t, makeTree(t, "x")),
		forage.Mount{Source: cache, Target: "/home/agent/.cache/tool", Layered: true},
		forage.Mount{Source: cache, Target: "/home/u/own", Layered: true})
	for range 2 { // the second sandbox finds nothing of the first
		o := inside(t, spec, `
			cd /home/agent/.cache/tool && cat a deep/b && echo
			test -e new && echo left behind
			echo changed >a && rm -r gone && mkdir -p more/x && echo y >new && mv new more/x && cat a more/x/new
			test -e gone && echo gone is there
			(: >deep/new) 2>/dev/null && echo wrote to a folder that is read-only
			cat /home/u/own/a && echo
			echo mine >>../other && cat ../other`)
		wantOut(t, o, "adeep/b\nchanged\ny\na\nmine")
		if after := listing(t, cache); after != before {
			t.Fatalf("the host's folder was changed:\n%s", after)
		}
	}
	o := inside(t, spec, `cd /home/agent/.cache/tool
		perl -MIO::Socket::UNIX -e 'print IO::Socket::UNIX->new("socket") ? "connected" : "refused"; use Fcntl; print sysopen(F, "fifo", O_WRONLY|O_NONBLOCK) ? "opened" : " refused"'`)
	wantOut(t, o, "refused refused")
}

func TestLayeredRefused(t *testing.T) {
	dir := makeTree(t, "file", "folder/x")
	for name, mount := range map[string]forage.Mount{
		"a file":               {Source: filepath.Join(dir, "file"), Target: "/data", Layered: true},
		"also writable":        {Source: dir, Target: "/data", Layered: true, Writable: true},
		"a part of the system": {Source: dir, Target: "/data", Layered: true, System: true},
	} {
		if _, err := boxed(t, with(baseSpec(t, dir), mount), script{}); err == nil {
			t.Errorf("%s: started", name)
		}
	}
}
