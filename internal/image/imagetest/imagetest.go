// Package imagetest makes a small real root filesystem for tests of the whole program,
// in each of the forms that a template may name: a folder, an OCI layout, a
// docker-archive and a reference in a registry on loopback. It is built around a static
// busybox, so that it needs nothing from the network.
package imagetest

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"forage"
)

// Applets are the commands in /bin.
func Applets() []string {
	return []string{"sh", "cat", "echo", "env", "false", "find", "grep", "head", "id", "ls", "mkdir", "mount", "nc", "ps", "pwd", "readlink",
		"rm", "sed", "sleep", "sort", "stat", "tail", "test", "touch", "true", "uname", "wc", "wget", "which"}
}

// Marker is a file that only these root filesystems have.
const Marker = "/etc/imagetest"

// Busybox is the host's busybox, if it is static; the test is skipped without one.
func Busybox(t testing.TB) string {
	t.Helper()
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox", "/usr/local/bin/busybox"} {
		if isStatic(path) {
			return path
		}
	}
	t.Skip("no static busybox: install busybox-static")
	return ""
}

func isStatic(path string) bool {
	f, err := elf.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	libraries, err := f.ImportedLibraries()
	return (err != nil || len(libraries) == 0) && f.Section(".interp") == nil
}

// Layer is the root filesystem as a tar: a usr-merged tree, as distributions have it.
func Layer(t testing.TB) []byte {
	t.Helper()
	busybox, err := os.ReadFile(Busybox(t))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	put := func(h tar.Header, content string) {
		h.Size = int64(len(content))
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"usr/", "usr/bin/", "etc/", "home/", "opt/", "proc/", "dev/", "sys/", "run/", "root/", "var/", "workspace/"} {
		put(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, "")
	}
	put(tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777}, "")
	put(tar.Header{Typeflag: tar.TypeSymlink, Name: "bin", Linkname: "usr/bin", Mode: 0o777}, "")
	put(tar.Header{Typeflag: tar.TypeReg, Name: "usr/bin/busybox", Mode: 0o4755}, string(busybox))
	for _, applet := range Applets() {
		put(tar.Header{Typeflag: tar.TypeLink, Name: "usr/bin/" + applet, Linkname: "usr/bin/busybox", Mode: 0o755}, "")
	}
	put(tar.Header{Typeflag: tar.TypeReg, Name: strings.TrimPrefix(Marker, "/"), Mode: 0o644}, "imagetest\n")
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644}, "root:x:0:0:root:/root:/bin/sh\n")
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/shadow", Mode: 0o600}, "root:*:::::::\n")
	put(tar.Header{Typeflag: tar.TypeReg, Name: "etc/below", Mode: 0o644}, "hidden by the second layer\n")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// second is a layer that takes a file away and adds one.
func second(t testing.TB) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, name := range []string{"etc/.wh.below", "opt/above"} {
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Image is the root filesystem in two layers, with a PATH and a working folder of its own.
func Image(t testing.TB) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH,
		Config: v1.Config{Env: []string{"PATH=/opt/tools:/bin"}, WorkingDir: "/opt"},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, raw := range [][]byte{Layer(t), second(t)} {
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
		if err == nil {
			img, err = mutate.AppendLayers(img, l)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// Dir is the root filesystem as a folder.
func Dir(t testing.TB) forage.Rootfs {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "rootfs")
	r := tar.NewReader(bytes.NewReader(Layer(t)))
	for {
		h, err := r.Next()
		if err == io.EOF {
			return forage.Rootfs{Kind: forage.RootfsDir, Ref: dir}
		}
		if err == nil {
			err = extract(dir, h, r)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// extract writes one entry of our own archive.
func extract(dir string, h *tar.Header, content io.Reader) error {
	path := filepath.Join(dir, h.Name)
	switch h.Typeflag {
	case tar.TypeDir:
		return os.MkdirAll(path, 0o755)
	case tar.TypeSymlink:
		return os.Symlink(h.Linkname, path)
	case tar.TypeLink:
		return os.Link(filepath.Join(dir, h.Linkname), path)
	}
	raw, err := io.ReadAll(content)
	if err != nil {
		return err
	}
	return os.WriteFile(path, raw, os.FileMode(h.Mode&0o777))
}

// Layout is the image as an OCI layout.
func Layout(t testing.TB) forage.Rootfs {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: Image(t)})); err != nil {
		t.Fatal(err)
	}
	return forage.Rootfs{Kind: forage.RootfsOCI, Ref: dir}
}

// Archive is the image as a docker-archive.
func Archive(t testing.TB) forage.Rootfs {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	tag, err := name.NewTag("imagetest:latest")
	if err == nil {
		err = tarball.WriteToFile(path, tag, Image(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return forage.Rootfs{Kind: forage.RootfsOCI, Ref: path}
}

// Registry is the image in a registry on loopback, which lives as long as the test.
func Registry(t testing.TB) forage.Rootfs {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	ref := strings.TrimPrefix(server.URL, "http://") + "/imagetest:latest"
	parsed, err := name.ParseReference(ref)
	if err == nil {
		err = remote.Write(parsed, Image(t))
	}
	if err != nil {
		t.Fatal(err)
	}
	return forage.Rootfs{Kind: forage.RootfsImage, Ref: ref}
}
