package guestclient

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"forage/internal/guest/wire"
)

// lyingFiles are the files of a hostile guest: what is said of a folder is said by name alone.
type lyingFiles struct {
	lists map[string][]lie
	links map[string]string
}

type lie struct {
	name string
	mode fs.FileMode
	size int64
}

func (l lie) Name() string       { return l.name }
func (l lie) Size() int64        { return l.size }
func (l lie) Mode() fs.FileMode  { return l.mode }
func (l lie) ModTime() time.Time { return time.Time{} }
func (l lie) IsDir() bool        { return l.mode.IsDir() }
func (l lie) Sys() any           { return nil }

func (f lyingFiles) Fileread(*sftp.Request) (io.ReaderAt, error) {
	return strings.NewReader("from inside"), nil
}
func (f lyingFiles) Filewrite(*sftp.Request) (io.WriterAt, error) { return nil, fs.ErrPermission }
func (f lyingFiles) Filecmd(*sftp.Request) error                  { return fs.ErrPermission }

func (f lyingFiles) Filelist(r *sftp.Request) (sftp.ListerAt, error) {
	switch r.Method {
	case "Stat":
		return listed{{path.Base(r.Filepath), fs.ModeDir | 0o755, 0}}, nil
	case "Readlink":
		return listed{{f.links[path.Base(r.Filepath)], 0, 0}}, nil
	}
	return listed(f.lists[r.Filepath]), nil
}

type listed []lie

func (l listed) ListAt(into []os.FileInfo, from int64) (n int, err error) {
	for ; int(from)+n < len(l) && n < len(into); n++ {
		into[n] = l[int(from)+n]
	}
	if int(from)+n == len(l) {
		err = io.EOF
	}
	return n, err
}

// Nothing is written outside of the folder that is copied to, whatever the guest calls its files
// and wherever its links lead.
func TestCopyFromLyingGuest(t *testing.T) {
	file, link, dir := fs.FileMode(0o644), fs.ModeSymlink|0o777, fs.ModeDir|0o755
	tests := map[string]struct {
		files lyingFiles
		fails bool
		want  []string
	}{
		"names":                   {files: lyingFiles{lists: map[string][]lie{"/a": {{"../evil", file, 11}, {"/etc/evil", file, 11}, {"x/../../evil", file, 11}}}}, want: []string{"evil"}},
		"a name with zero":        {files: lyingFiles{lists: map[string][]lie{"/a": {{"a\x00b", file, 11}}}}, fails: true},
		"more than there is room": {files: lyingFiles{lists: map[string][]lie{"/a": {{"big", file, 1 << 62}}}}, fails: true},
		"link and folder of one name": {files: lyingFiles{
			lists: map[string][]lie{"/a": {{"x", link, 0}, {"x", dir, 0}}, "/a/x": {{"evil", file, 11}}}, links: map[string]string{"x": "y"}}, fails: true, want: []string{"x"}},
		"link out": {files: lyingFiles{
			lists: map[string][]lie{"/a": {{"x", link, 0}, {"x", file, 11}}}, links: map[string]string{"x": "../evil"}}, want: []string{"x"}},
		"link and file of one name": {files: lyingFiles{
			lists: map[string][]lie{"/a": {{"x", link, 0}, {"x", file, 11}, {"y", file, 11}}}, links: map[string]string{"x": "y"}}, want: []string{"x", "y"}},
		"pipe": {files: lyingFiles{lists: map[string][]lie{"/a": {{"p", fs.ModeNamedPipe, 0}, {"s", fs.ModeSetuid | 0o4755, 11}}}}, want: []string{"s"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			client := hostileGuest(t, func(_ *wire.Conn, channel ssh.NewChannel) {
				sftp.NewRequestServer(accept(channel), sftp.Handlers{FileGet: test.files, FilePut: test.files, FileCmd: test.files, FileList: test.files}).Serve()
			})
			copier, closed, err := client.Copier(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer closed()
			top := t.TempDir()
			if _, err := copier.Download("/a", filepath.Join(top, "to")); (err != nil) != test.fails {
				t.Errorf("got %v", err)
			}
			var got []string
			check := fs.WalkDir(os.DirFS(top), ".", func(name string, entry fs.DirEntry, err error) error {
				if rel, inside := strings.CutPrefix(name, "to/"); inside {
					got = append(got, rel)
				} else if name != "." && name != "to" {
					t.Errorf("%s was written", name)
				}
				if info, _ := entry.Info(); info != nil && info.Mode()&fs.ModeSetuid != 0 {
					t.Errorf("%s has the setuid bit", name)
				}
				return err
			})
			if check != nil || strings.Join(got, " ") != strings.Join(test.want, " ") {
				t.Errorf("got %q, want %q (%v)", got, test.want, check)
			}
		})
	}
}

func TestWithin(t *testing.T) {
	tests := []struct {
		to               place
		folder, contents bool
		want             string
	}{
		{place{"/t", true, true}, false, false, "/t/n"},
		{place{"/t", true, true}, true, false, "/t/n"},
		{place{"/t", true, true}, true, true, "/t"},
		{place{"/t", false, true}, false, false, "/t"},
		{place{"/t", false, true}, true, false, ""},
		{place{"/t/", false, true}, false, false, ""},
		{place{"/t", false, false}, false, false, "/t"},
		{place{"/t/", false, false}, false, false, ""},
		{place{"/t/", false, false}, true, false, "/t"},
		{place{"/t", false, false}, true, true, "/t"},
	}
	for _, test := range tests {
		got, err := test.to.within("n", test.folder, test.contents, path.Join)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v, folder %v, contents %v: %q, %v, want %q", test.to, test.folder, test.contents, got, err, test.want)
		}
	}
}

func TestContentsOnly(t *testing.T) {
	for from, want := range map[string]bool{"": true, ".": true, "a/.": true, "/": true, "..": true, "a/..": true, "a": false, "a/": false, "/a/b": false, ".a": false, "a.": false} {
		if got := contentsOnly(from); got != want {
			t.Errorf("%q: %v", from, got)
		}
	}
}

// A link that stays may go up at its beginning only, and no further than the root: what follows may
// be a link itself.
func TestStaysBelow(t *testing.T) {
	tests := []struct {
		target string
		depth  int
		want   bool
	}{
		{"a", 0, true}, {"a/b", 0, true}, {"./a", 0, true}, {".", 0, true},
		{"..", 0, false}, {"..", 1, true}, {"../..", 1, false}, {"../../a", 2, true}, {"../../../a", 2, false},
		{"a/..", 0, false}, {"a/../b", 3, false}, {"../a/../b", 3, false},
		{"/a", 3, false}, {"", 1, false}, {"a\x00b", 1, false}, {"..a", 0, true},
	}
	for _, test := range tests {
		if got := staysBelow(test.target, test.depth); got != test.want {
			t.Errorf("%q, %d folders down: %v", test.target, test.depth, got)
		}
	}
}
