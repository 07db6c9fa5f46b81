package boot

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for path, mode := range map[string]os.FileMode{"one/tool": 0o644, "two/tool": 0o755, "work/local": 0o755, "one/only": 0o644} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, path), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	os.Mkdir(filepath.Join(dir, "one", "folder"), 0o755)
	env := []string{"PATH=/nowhere", "PATH=" + dir + "/one:" + dir + "/two"} // the last counts
	for _, test := range []struct {
		name, want string
		code       int
	}{
		{"tool", dir + "/two/tool", 0},
		{"local", "", 127},
		{"./local", dir + "/work/local", 0},
		{"../two/tool", dir + "/two/tool", 0},
		{"only", "", 126},
		{"folder", "", 127},
		{dir + "/one/only", "", 126},
		{dir + "/one/folder", "", 126},
		{dir + "/one/tool/x", "", 127},
		{"", "", 127},
		{".", "", 127},
	} {
		got, err := LookPath(test.name, env, dir+"/work")
		code := 0
		if start, ok := errors.AsType[*StartError](err); ok {
			code = start.Code
		} else if err != nil {
			t.Errorf("%q: %v", test.name, err)
		}
		if got != test.want || code != test.code {
			t.Errorf("%q: got %q, code %d", test.name, got, code)
		}
	}
}

func TestSetenv(t *testing.T) {
	env := []string{"A=1", "B=2"}
	if diff := cmp.Diff([]string{"A=1", "B=3", "C=4"}, Setenv(env, "B=3", "C=5", "C=4")); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"A=1", "B=2"}, env); diff != "" {
		t.Error("env was changed:", diff)
	}
}

func TestTail(t *testing.T) {
	var kept tail
	for range 10000 {
		kept.Write([]byte("line\n"))
	}
	kept.Write([]byte("last\xff"))
	got := kept.String()
	if len(got) > tailSize+3 || got[:5] != "line\n" || got[len(got)-7:] != "last\uFFFD" {
		t.Errorf("%d bytes: %q...%q", len(got), got[:5], got[len(got)-7:])
	}
}
