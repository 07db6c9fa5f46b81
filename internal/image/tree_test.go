package image

import (
	"archive/tar"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"

	"forage"
	"forage/internal/hostile"
	"forage/internal/testdir"
)

func TestApply(t *testing.T) {
	old := syscall.Umask(0o077) // what the image says counts, not the caller's umask
	defer syscall.Umask(old)
	tests := []struct {
		name   string
		layers [][]tar.Header
		want   map[string]string
	}{
		{"modes, and set-id bits dropped", [][]tar.Header{{
			moded(dir("d/"), 0o2755), moded(file("d/su", "x"), 0o6755), moded(dir("tmp"), 0o1777), moded(dir("closed"), 0o500),
			moded(file("closed/f", "y"), 0o400),
		}}, map[string]string{
			"d": "dir drwxr-xr-x", "d/su": "file -rwxr-xr-x x", "tmp": "dir drwxrwxrwx", "closed": "dir drwx------", "closed/f": "file -r-------- y",
		}},
		{"parents made on the way", [][]tar.Header{{file("a/b/c", "1")}},
			map[string]string{"a": "dir drwxr-xr-x", "a/b": "dir drwxr-xr-x", "a/b/c": "file -rw-r--r-- 1"}},
		{"names with slashes and dots", [][]tar.Header{{dir("./"), file("//abs//f", "1"), file("./g", "2")}},
			map[string]string{"abs": "dir drwxr-xr-x", "abs/f": "file -rw-r--r-- 1", "g": "file -rw-r--r-- 2"}},
		{"devices, FIFOs and sockets left out", [][]tar.Header{
			{special(tar.TypeChar, "null"), special(tar.TypeBlock, "sda"), special(tar.TypeFifo, "fifo"), file("f", "1")},
			{special(tar.TypeChar, "f")},
		}, map[string]string{}},
		{"names with control bytes are names", [][]tar.Header{{file("a\nb\x1b[31m", "1"), file("-rf", "2"), file("\xff\xfe", "3")}},
			map[string]string{"a\nb\x1b[31m": "file -rw-r--r-- 1", "-rf": "file -rw-r--r-- 2", "\xff\xfe": "file -rw-r--r-- 3"}},
		{"hard links", [][]tar.Header{{file("a", "1"), hardlink("b", "/a"), hardlink("b", "./b"), symlink("s", "a"), hardlink("s2", "s")}},
			map[string]string{"a": "file -rw-r--r-- 1", "b": "file -rw-r--r-- 1", "s": "link a", "s2": "link a"}},
		{"a file replaced is not written through", [][]tar.Header{{file("a", "1"), hardlink("b", "a"), file("b", "2")}},
			map[string]string{"a": "file -rw-r--r-- 1", "b": "file -rw-r--r-- 2"}},
		{"everything replaces everything", [][]tar.Header{
			{dir("x"), file("x/in", "1"), file("y", "1"), symlink("z", "x")},
			{symlink("x", "y"), dir("y"), file("y/in", "2"), dir("z")},
		}, map[string]string{"x": "link y", "y": "dir drwxr-xr-x", "y/in": "file -rw-r--r-- 2", "z": "dir drwxr-xr-x"}},
		{"a link in the way is followed within the image", [][]tar.Header{
			{dir("usr/lib"), symlink("lib", "usr/lib"), symlink("abs", "/usr/lib"), symlink("up", "../../../../usr")},
			{file("lib/a", "1"), file("abs/b", "2"), file("up/c", "3")},
		}, map[string]string{
			"usr": "dir drwxr-xr-x", "usr/lib": "dir drwxr-xr-x", "lib": "link usr/lib", "abs": "link /usr/lib", "up": "link ../../../../usr",
			"usr/lib/a": "file -rw-r--r-- 1", "usr/lib/b": "file -rw-r--r-- 2", "usr/c": "file -rw-r--r-- 3",
		}},
		{"what is no folder makes way for one", [][]tar.Header{
			{file("f", "1"), symlink("nowhere", "gone"), symlink("loop", "loop")},
			{file("f/in", "2"), file("nowhere/in", "3"), file("loop/in", "4")},
		}, map[string]string{
			"f": "dir drwxr-xr-x", "f/in": "file -rw-r--r-- 2", "nowhere": "dir drwxr-xr-x", "nowhere/in": "file -rw-r--r-- 3",
			"loop": "dir drwxr-xr-x", "loop/in": "file -rw-r--r-- 4",
		}},
		{"whiteouts", [][]tar.Header{
			{file("a", "1"), dir("d"), file("d/x", "1"), file("d/sub/y", "1"), file("keep", "1")},
			{file(".wh.a", ""), file(".wh.d", ""), file(".wh.absent", ""), file("nodir/.wh.z", "")},
		}, map[string]string{"keep": "file -rw-r--r-- 1"}},
		{"a whiteout spares its own layer, before and after it", [][]tar.Header{
			{file("a", "1"), file("d/low", "1"), file("d/sub/low", "1")},
			{file("a", "2"), file(".wh.a", ""), file("d/sub/mine", "2"), file("d/.wh..wh..opq", ""), file("d/after", "2")},
		}, map[string]string{
			"a": "file -rw-r--r-- 2", "d": "dir drwxr-xr-x", "d/sub": "dir drwxr-xr-x", "d/sub/mine": "file -rw-r--r-- 2", "d/after": "file -rw-r--r-- 2",
		}},
		{"an opaque folder that the layer names stays, empty", [][]tar.Header{
			{file("d/sub/low", "1")}, {dir("d/sub"), file("d/.wh..wh..opq", "")},
		}, map[string]string{"d": "dir drwxr-xr-x", "d/sub": "dir drwxr-xr-x"}},
		{"an opaque folder under a whiteout of a layer between", [][]tar.Header{
			{file("d/low", "1")}, {file(".wh.d", ""), file("d/mid", "2")}, {file("d/top", "3")},
		}, map[string]string{"d": "dir drwxr-xr-x", "d/mid": "file -rw-r--r-- 2", "d/top": "file -rw-r--r-- 3"}},
		{"AUFS' own files", [][]tar.Header{{file("plnk", "1")}, {file(".wh..wh.plnk", ""), file(".wh..wh.aufs", "")}},
			map[string]string{"plnk": "file -rw-r--r-- 1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var layers [][]byte
			for _, l := range tt.layers {
				layers = append(layers, tarOf(t, l...))
			}
			root, err := unpackLayers(t, Limits{}, layers...)
			testdir.Must(t, err)
			testdir.Same(t, "tree", tt.want, contents(t, root))
		})
	}
}

// TestHostile feeds archives that try to reach outside the tree, or to fill the disk.
func TestHostile(t *testing.T) {
	deep := strings.Repeat("d/", 500) // XFS has links of at most 1,023 bytes
	tests := []struct {
		name    string
		layers  [][]tar.Header
		limits  Limits
		wantErr string // "" where the attempt is harmless instead
	}{
		{"dots", [][]tar.Header{{file("../canary", "x")}}, Limits{}, "outside"},
		{"dots inside", [][]tar.Header{{file("a/../../canary", "x")}}, Limits{}, "outside"},
		{"absolute", [][]tar.Header{{file("/canary", "x")}}, Limits{}, ""},
		{"write through a relative link", [][]tar.Header{{symlink("l", ".."), file("l/canary", "x")}}, Limits{}, ""},
		{"write through an absolute link", [][]tar.Header{{symlink("l", "OUTSIDE"), file("l/canary", "x")}}, Limits{}, ""},
		{"overwrite a link to outside", [][]tar.Header{{symlink("l", "OUTSIDE/canary"), file("l", "x")}}, Limits{}, ""},
		{"chmod through a link", [][]tar.Header{{symlink("l", "OUTSIDE"), moded(dir("l"), 0o777)}}, Limits{}, ""},
		{"chain of links", [][]tar.Header{{symlink("a", "b/.."), symlink("b", ".."), file("a/canary", "x"), file("b/canary", "x")}}, Limits{}, ""},
		{"magic link", [][]tar.Header{{symlink("l", "/proc/self/cwd"), file("l/canary", "x")}}, Limits{}, ""},
		{"hard link to outside", [][]tar.Header{{hardlink("h", "../canary")}}, Limits{}, "outside"},
		{"hard link to an absolute path", [][]tar.Header{{hardlink("h", "OUTSIDE/canary"), file("h", "x")}}, Limits{}, "hard link"},
		{"hard link through a link", [][]tar.Header{{symlink("l", "OUTSIDE"), hardlink("h", "l/canary")}}, Limits{}, "hard link"},
		{"hard link to a folder", [][]tar.Header{{dir("d"), hardlink("h", "d")}}, Limits{}, "hard link"},
		{"hard link to a link to outside", [][]tar.Header{{symlink("l", "OUTSIDE/canary"), hardlink("h", "l"), file("h", "x")}}, Limits{}, ""},
		{"whiteout of the parent", [][]tar.Header{{file("a", "")}, {file("d/.wh...", "")}}, Limits{}, "outside"},
		{"whiteout of the folder", [][]tar.Header{{file("a", "")}, {file("d/.wh..", "")}}, Limits{}, "outside"},
		{"whiteout of nothing", [][]tar.Header{{file("a", "")}, {file(".wh.", "")}}, Limits{}, "outside"},
		{"whiteout through a link", [][]tar.Header{{symlink("l", "OUTSIDE")}, {file("l/.wh.canary", ""), file("l/.wh..wh..opq", "")}}, Limits{}, ""},
		{"opaque through a link upwards", [][]tar.Header{{symlink("l", "../..")}, {file("l/.wh..wh..opq", "")}}, Limits{}, ""},
		{"folder replaced by a link", [][]tar.Header{{dir("d"), file("d/a", "1"), symlink("d", "OUTSIDE"), file("d/canary", "x")}}, Limits{}, ""},
		{"removal does not follow links", [][]tar.Header{{symlink("d/l", "OUTSIDE")}, {file(".wh.d", "")}}, Limits{}, ""},
		{"too many entries", [][]tar.Header{{file("a", ""), file("b", ""), file("c", "")}}, Limits{Entries: 2}, "larger"},
		{"too many parents", [][]tar.Header{{file(deep+"f", "")}}, Limits{Entries: 100}, "larger"},
		{"too many whiteouts", [][]tar.Header{{file("a", "")}, {file(".wh.a", ""), file(".wh.b", ""), file(".wh.c", "")}}, Limits{Entries: 3}, "larger"},
		{"too large", [][]tar.Header{{file("a", strings.Repeat("x", 5000))}}, Limits{Bytes: 4096}, "larger"},
		{"name too long", [][]tar.Header{{file(strings.Repeat("n", 300), "")}}, Limits{}, "too long"},
		{"path too long", [][]tar.Header{{file(strings.Repeat("d/", 3000)+"f", "")}}, Limits{}, "too long"},
		{"deeper than a path", [][]tar.Header{
			{
				dir(deep), symlink("s", deep), dir("s/" + deep), symlink("s2", "s/"+deep), dir("s2/" + deep),
				symlink("s3", "s2/"+deep), dir("s3/" + deep), symlink("s4", "s3/"+deep), dir("s4/" + deep),
			},
			{file(".wh.d", "")},
		}, Limits{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			outside := t.TempDir()
			rootfs := filepath.Join(outside, "rootfs")
			write(t, filepath.Join(outside, "canary"), "alive")
			testdir.Must(t, os.Mkdir(rootfs, 0o755))
			testdir.Must(t, os.Chmod(outside, 0o750))
			var layers [][]byte
			for _, l := range tt.layers {
				for i := range l {
					l[i].Linkname = strings.ReplaceAll(l[i].Linkname, "OUTSIDE", outside)
				}
				layers = append(layers, tarOf(t, l...))
			}
			err := unpackInto(t, rootfs, tt.limits, layers...)
			if tt.wantErr == "" && err != nil || tt.wantErr != "" && (err == nil || !strings.Contains(err.Error(), tt.wantErr)) {
				t.Errorf("error %v, want %q", err, tt.wantErr)
			}
			if err != nil && !errors.Is(err, forage.ErrStart) {
				t.Errorf("error %v is of no kind", err)
			}
			if err := hostile.RemoveAll(rootfs); err != nil {
				t.Errorf("removing the tree: %v", err)
			}
			want := map[string]string{"canary": "file -rw------- alive"}
			testdir.Same(t, "outside", want, contents(t, outside))
			if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o750 {
				t.Errorf("the folder outside is %v, %v", info.Mode(), err)
			}
		})
	}
}

// TestBombs feeds few bytes that say they are many.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 64<<20)
	header := tarOf(t, file("zeros", string(zeros)))
	enc, err := zstd.NewWriter(nil)
	testdir.Must(t, err)
	sparse := tarOf(t, file("s", ""))
	// An old GNU sparse header that claims 8 EiB in no data.
	copy(sparse[156:], "S")
	copy(sparse[257:], "ustar  \x00")
	copy(sparse[483:], "\x80\x00\x00\x00\x7f\xff\xff\xff\xff\xff\xff\xff")
	fixChecksum(sparse)
	for name, raw := range map[string][]byte{
		"gzip":   gzipped(t, header),
		"zstd":   enc.EncodeAll(header, nil),
		"sparse": sparse,
	} {
		t.Run(name, func(t *testing.T) {
			root, err := unpackLayers(t, Limits{Bytes: 1 << 20}, raw)
			if err == nil {
				t.Fatal("unpacked")
			}
			if info, err := os.Stat(filepath.Join(root, "zeros")); err == nil && info.Size() > 1<<20 {
				t.Errorf("%d bytes written", info.Size())
			}
		})
	}
}

// fixChecksum makes the first header of a tar valid again.
func fixChecksum(raw []byte) {
	copy(raw[148:], "        ")
	var sum int
	for _, b := range raw[:512] {
		sum += int(b)
	}
	copy(raw[148:], fmt.Sprintf("%06o\x00 ", sum))
}

func write(t testing.TB, path, content string) {
	t.Helper()
	testdir.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// FuzzEntries feeds well-formed layers of entries that get in each other's way: each
// three bytes are a kind, a name and a target.
func FuzzEntries(f *testing.F) {
	f.Add([]byte("abcdefghijklmnopqrstuvwxyz0123456789"))
	f.Fuzz(func(t *testing.T, data []byte) {
		layers := [][]tar.Header{{}}
		for ; len(data) >= 3 && len(data) < 300; data = data[3:] {
			name, target := fuzzName(data[1]), fuzzName(data[2])
			kinds := []tar.Header{
				file(name, "x"), dir(name), symlink(name, target), symlink(name, "/"+target), symlink(name, "../../"+target), hardlink(name, target),
				file(name+"/.wh..wh..opq", ""), file(path.Join(path.Dir(name), ".wh."+path.Base(name)), ""), special(tar.TypeFifo, name), moded(file(name, "y"), 0o7777),
			}
			kind := int(data[0]) % (len(kinds) + 1)
			if kind == len(kinds) {
				layers = append(layers, nil)
				continue
			}
			last := len(layers) - 1
			layers[last] = append(layers[last], kinds[kind])
		}
		var raw [][]byte
		for _, l := range layers {
			raw = append(raw, tarOf(t, l...))
		}
		unpackHostile(t, raw...)
	})
}

// fuzzName is one of few names, so that they meet: one to three parts of four.
func fuzzName(b byte) string {
	parts := []string{"a", "b", "canary", ".."}
	name := parts[b%3]
	for b /= 4; b > 0; b /= 4 {
		name += "/" + parts[b%4]
	}
	return name
}

// unpackHostile unpacks layers and fails if anything is not as it must be whatever they hold.
func unpackHostile(t *testing.T, layers ...[]byte) {
	outside := t.TempDir()
	write(t, filepath.Join(outside, "canary"), "alive")
	rootfs := filepath.Join(outside, "rootfs")
	testdir.Must(t, os.Mkdir(rootfs, 0o755))
	_ = unpackInto(t, rootfs, Limits{Bytes: 1 << 20, Entries: 1000}, layers...)
	for name, what := range contents(t, rootfs) {
		kind, rest, _ := strings.Cut(what, " ")
		mode, _, _ := strings.Cut(rest, " ") // of a link it is a target, which may be a space alone
		if kind == "special" || kind != "link" && strings.ContainsAny(mode, "ugt") {
			t.Errorf("%q is %s", name, what)
		}
	}
	if err := hostile.RemoveAll(rootfs); err != nil {
		t.Errorf("removing: %v", err)
	}
	testdir.Same(t, "outside", map[string]string{"canary": "file -rw------- alive"}, contents(t, outside))
}
