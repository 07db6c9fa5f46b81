package image

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"forage/internal/testdir"
)

// past is the modification time of all test files.
var past = time.Date(2020, 1, 2, 3, 4, 5, 0, time.UTC)

// Entries of test layers.

func file(name, content string) tar.Header {
	return tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, PAXRecords: map[string]string{"TEST.content": content}}
}

func moded(h tar.Header, mode int64) tar.Header { h.Mode = mode; return h }

func dir(name string) tar.Header {
	return tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: 0o755}
}

func symlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}
}

func hardlink(name, target string) tar.Header {
	return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: target, Mode: 0o644}
}

func special(typ byte, name string) tar.Header {
	return tar.Header{Typeflag: typ, Name: name, Mode: 0o666, Devmajor: 1, Devminor: 3}
}

// tarOf writes entries as an archive.
func tarOf(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, h := range entries {
		content := h.PAXRecords["TEST.content"]
		h.PAXRecords = nil
		h.Size = int64(len(content))
		h.ModTime = past
		testdir.Must(t, w.WriteHeader(&h))
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	testdir.Must(t, w.Close())
	return buf.Bytes()
}

func gzipped(t testing.TB, raw []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	w := gzip.NewWriter(&buf)
	if _, err := w.Write(raw); err != nil {
		t.Fatal(err)
	}
	testdir.Must(t, w.Close())
	return buf.Bytes()
}

func layerOf(t testing.TB, raw []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
	testdir.Must(t, err)
	return l
}

// imageOf makes an image for this machine.
func imageOf(t testing.TB, layers ...[]byte) v1.Image {
	t.Helper()
	img, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: platform().Architecture,
		Config: v1.Config{Env: []string{"A=b", "PATH=/opt/bin:relative:/usr/bin"}, WorkingDir: "/srv/../app", User: "1000:1000"},
	})
	testdir.Must(t, err)
	for _, raw := range layers {
		if img, err = mutate.AppendLayers(img, layerOf(t, raw)); err != nil {
			t.Fatal(err)
		}
	}
	return img
}

// unpackLayers applies layers to a fresh tree, without a cache.
func unpackLayers(t testing.TB, limits Limits, layers ...[]byte) (string, error) {
	t.Helper()
	rootfs := filepath.Join(t.TempDir(), "rootfs")
	testdir.Must(t, os.Mkdir(rootfs, 0o755))
	return rootfs, unpackInto(t, rootfs, limits, layers...)
}

func unpackInto(t testing.TB, rootfs string, limits Limits, layers ...[]byte) error {
	t.Helper()
	tr, err := openTree(rootfs, limits.orDefault())
	testdir.Must(t, err)
	defer tr.Close()
	left := tr.limits.Bytes
	for i, raw := range layers {
		tr.nextLayer(i == 0)
		plain, err := decompress(bytes.NewReader(raw))
		if err != nil {
			return err
		}
		if err := tr.applyTar(newHashing(context.Background(), plain, left)); err != nil {
			return err
		}
	}
	return nil
}

// contents describes a tree: path to "file MODE CONTENT", "dir MODE" or "link TARGET".
func contents(t testing.TB, root string) map[string]string {
	t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		got[rel] = describe(t, p, info)
		return nil
	})
	testdir.Must(t, err)
	return got
}

func describe(t testing.TB, p string, info fs.FileInfo) string {
	t.Helper()
	switch {
	case info.IsDir():
		return "dir " + info.Mode().String()
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(p)
		testdir.Must(t, err)
		return "link " + target
	case info.Mode().IsRegular():
		raw, err := os.ReadFile(p)
		if err != nil {
			raw = []byte("unreadable")
		}
		return "file " + info.Mode().String() + " " + string(raw)
	}
	return "special " + info.Mode().String()
}
