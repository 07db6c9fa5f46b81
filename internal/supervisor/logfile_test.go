package supervisor

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.log")
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	log.limit = 1000
	line := strings.Repeat("x", 99) + "\n"
	read, write := pipeFor(t)
	go func() {
		defer write.Close()
		io.WriteString(write, strings.Repeat(line, 1000))
	}()
	log.fill(read, nil, io.Discard)
	for _, name := range []string{path, path + ".1"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > 64<<10 {
			t.Errorf("%s holds %d bytes", filepath.Base(name), len(text))
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 2 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

// A process that has the pipe open when nothing runs inside any more is not waited for.
func TestLogOfTheDead(t *testing.T) {
	s := &Sandbox{activity: newActivity("", false), setup: Setup{LogPath: filepath.Join(t.TempDir(), "box.log")}}
	write, err := s.openLog()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	io.WriteString(write, "last words")
	undone := make(chan error, 1)
	go func() { undone <- s.undo.run() }()
	select {
	case err := <-undone:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Minute):
		t.Fatal("the log's end is waited for in vain")
	}
	if text, err := os.ReadFile(s.setup.LogPath); err != nil || string(text) != "last words" {
		t.Errorf("the log holds %q (%v)", text, err)
	}
}

func pipeFor(t *testing.T) (read, write *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { read.Close(); write.Close() })
	return read, write
}
