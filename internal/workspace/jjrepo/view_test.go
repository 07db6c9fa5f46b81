package jjrepo

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// FuzzView reads views as they could come from inside: whatever they are, no id is one that git would take for something else.
func FuzzView(f *testing.F) {
	id := strings.Repeat("\x01", 20)
	f.Add([]byte("\x0a\x14" + id))
	f.Add(appendBytes(nil, 8, appendBytes(appendBytes(nil, 1, []byte("default")), 2, []byte(id))))
	f.Add([]byte("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, message []byte) {
		view, err := parseView(message)
		if err != nil {
			return
		}
		ids := view.Heads
		for _, id := range view.WorkingCopies {
			ids = append(ids, id)
		}
		for _, id := range ids {
			if _, err := hex.DecodeString(id); err != nil && id != "" || id != "" && len(id) != 40 && len(id) != 64 {
				t.Errorf("%q came out as a commit", id)
			}
		}
		_, _ = checkoutName(message)
		_ = workspaceName(message)
	})
}

func TestFields(t *testing.T) {
	message := appendBytes([]byte{0x60, 0x01, 0x09, 1, 2, 3, 4, 5, 6, 7, 8, 0x15, 1, 2, 3, 4}, 3, []byte("name"))
	var got []int
	if err := fields(message, func(f field) error { got = append(got, f.number); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{12, 1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"\x00", "\x0a", "\x0a\x05abc", "\x0b", "\x09abc", "\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "\x08"} {
		if err := fields([]byte(bad), func(field) error { return nil }); err == nil {
			t.Errorf("%q is taken for a message", bad)
		}
	}
}

func TestAt(t *testing.T) {
	for name, test := range map[string]struct {
		view View
		want string
	}{
		"by its name":            {View{Workspace: "box", WorkingCopies: map[string]string{"box": "1", "other": "2"}}, "1"},
		"renamed inside":         {View{Workspace: "box", WorkingCopies: map[string]string{"other": "2"}}, "2"},
		"one of several unknown": {View{Workspace: "box", WorkingCopies: map[string]string{"a": "1", "b": "2"}}, ""},
	} {
		if got := test.view.at(); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestNotePath(t *testing.T) {
	dir := t.TempDir()
	s := &Shadow{Repository: &Repository{Dir: dir}}
	if err := s.notePath(t.Context(), "box", "/x"); err != nil {
		t.Fatalf("a repository without a store of workspaces: %v", err)
	}
	index := filepath.Join(dir, "workspace_store/index")
	if err := os.Mkdir(filepath.Dir(index), 0o700); err != nil {
		t.Fatal(err)
	}
	user := appendBytes(nil, 1, appendBytes(appendBytes(nil, 1, []byte("default")), 2, []byte("../..")))
	if err := os.WriteFile(index, user, 0o600); err != nil {
		t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for range 2 {
		if err := s.notePath(t.Context(), "box", "/state/box"); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(); strings.Count(got, "box\x12") != 1 || !strings.Contains(got, "/state/box") || !strings.HasPrefix(got, string(user)) {
		t.Errorf("the store is %q", got)
	}
	if err := s.notePath(t.Context(), "box", ""); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(user), read()); diff != "" {
		t.Error(diff)
	}
	if left, err := os.ReadDir(filepath.Dir(index)); err != nil || len(left) != 1 {
		t.Errorf("left are %v, %v", left, err)
	}
}
