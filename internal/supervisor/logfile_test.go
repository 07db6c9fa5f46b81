package supervisor

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "box.log")
	log, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	log.limit = 1000
	line := strings.Repeat("x", 99) + "\n"
	log.fill(struct{ io.Reader }{strings.NewReader(strings.Repeat(line, 1000))})
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

// The agent must not stand still because the log can't be written.
func TestLogThatCannotBeWrittenIsDrained(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	log := &logFile{path: "/dev/full", file: full, limit: 1 << 30}
	source := &countingReader{Reader: bytes.NewReader(make([]byte, 1<<20))}
	log.fill(source)
	if source.n != 1<<20 {
		t.Errorf("only %d bytes were taken", source.n)
	}
}

type countingReader struct {
	io.Reader
	n int
}

func (r *countingReader) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	r.n += n
	return n, err
}
