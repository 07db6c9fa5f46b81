package image

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/testdir"
)

// sample is an image of two layers, and what it unpacks to.
func sample(t testing.TB) (v1.Image, map[string]string) {
	t.Helper()
	img := imageOf(t,
		tarOf(t, dir("bin"), moded(file("bin/sh", "#!"), 0o4755), file("etc/old", "1"), file("etc/conf", "1")),
		gzipped(t, tarOf(t, file("etc/.wh.old", ""), file("etc/conf", "2"), special(tar.TypeChar, "dev/null"))))
	return img, map[string]string{
		"bin": "dir drwxr-xr-x", "bin/sh": "file -rwxr-xr-x #!", "etc": "dir drwxr-xr-x", "etc/conf": "file -rw-r--r-- 2", "dev": "dir drwxr-xr-x",
	}
}

// samplePath is the PATH of every image of imageOf.
const samplePath = "/opt/bin:/usr/bin"

// writeLayout writes images as an OCI layout.
func writeLayout(t testing.TB, images ...mutate.IndexAddendum) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "layout")
	if _, err := layout.Write(dir, mutate.AppendManifests(empty.Index, images...)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// writeArchive writes an image as a docker-archive.
func writeArchive(t testing.TB, img v1.Image) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "image.tar")
	ref, err := name.NewTag("test/sample:one")
	testdir.Must(t, err)
	testdir.Must(t, tarball.WriteToFile(path, ref, img))
	return path
}

// registryServer is a registry on loopback that counts requests.
type registryServer struct {
	host  string
	count atomic.Int64
	wrap  atomic.Pointer[func(http.ResponseWriter, *http.Request, http.Handler)]
}

func newRegistry(t testing.TB) *registryServer {
	t.Helper()
	s := &registryServer{}
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.count.Add(1)
		if wrap := s.wrap.Load(); wrap != nil {
			(*wrap)(w, r, inner)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	s.host = strings.TrimPrefix(server.URL, "http://")
	return s
}

func (s *registryServer) intercept(f func(http.ResponseWriter, *http.Request, http.Handler)) {
	s.wrap.Store(&f)
}

func (s *registryServer) push(t testing.TB, img v1.Image) string {
	t.Helper()
	ref, err := name.ParseReference(s.host + "/test/sample:one")
	testdir.Must(t, err)
	testdir.Must(t, remote.Write(ref, img))
	return ref.String()
}

func TestResolve(t *testing.T) {
	img, want := sample(t)
	dir := writeLayout(t, mutate.IndexAddendum{Add: img})
	server := newRegistry(t)
	cacheDir := filepath.Join(t.TempDir(), "cache")
	trees := map[string]bool{}
	for _, fs := range []forage.Rootfs{
		{Kind: forage.RootfsOCI, Ref: dir},
		{Kind: forage.RootfsOCI, Ref: writeArchive(t, img)},
		{Kind: forage.RootfsOCI, Ref: writeArchive(t, img) + ":one"},
		{Kind: forage.RootfsImage, Ref: server.push(t, img)},
	} {
		for _, cache := range []string{cacheDir, filepath.Join(t.TempDir(), "fresh")} {
			lower, path, err := Resolve(t.Context(), fs, cache, Limits{})
			if err != nil || path != samplePath {
				t.Fatalf("%v: PATH %q, %v", fs, path, err)
			}
			if len(lower) != 1 {
				t.Fatalf("%v: %d folders", fs, len(lower))
			}
			if diff := cmp.Diff(want, contents(t, lower[0])); diff != "" {
				t.Errorf("%v: tree (-want +got):\n%s", fs, diff)
			}
			if cache == cacheDir {
				trees[lower[0]] = true
			}
			if info, err := os.Stat(filepath.Join(lower[0], "bin/sh")); err != nil || !info.ModTime().Equal(past) {
				t.Errorf("%v: modification time %v, %v", fs, info.ModTime(), err)
			}
		}
	}
	if len(trees) != 1 {
		t.Errorf("the same layers were unpacked to %d trees", len(trees))
	}
	checkClean(t, cacheDir)
}

// checkClean fails if a cache holds anything half done.
func checkClean(t testing.TB, cacheDir string) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(cacheDir, "tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("left over: %s", e.Name())
	}
}

func TestResolveKnownReference(t *testing.T) {
	one, _ := sample(t)
	two := imageOf(t, tarOf(t, file("two", "2")))
	server := newRegistry(t)
	cacheDir := t.TempDir()
	fs := forage.Rootfs{Kind: forage.RootfsImage, Ref: server.push(t, one)}
	first, _, err := Resolve(t.Context(), fs, cacheDir, Limits{})
	testdir.Must(t, err)
	server.push(t, two)
	asked := server.count.Load()
	again, path, err := Resolve(t.Context(), fs, cacheDir, Limits{})
	if err != nil || again[0] != first[0] || path != samplePath {
		t.Errorf("second time: %v, %v, %v", again, path, err)
	}
	if server.count.Load() != asked {
		t.Error("the registry was asked for what the cache knows")
	}
}

func TestResolveIndex(t *testing.T) {
	mine, want := sample(t)
	other := imageOf(t, tarOf(t, file("other", "")))
	foreign := v1.Platform{OS: "linux", Architecture: "other64"}
	here := platform()
	both := []mutate.IndexAddendum{
		{Add: other, Descriptor: v1.Descriptor{Platform: &foreign}},
		{Add: mine, Descriptor: v1.Descriptor{Platform: &here}},
	}
	server := newRegistry(t)
	ref, err := name.ParseReference(server.host + "/test/index")
	testdir.Must(t, err)
	testdir.Must(t, remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, both...)))
	nested := mutate.IndexAddendum{Add: mutate.AppendManifests(empty.Index, both...)}
	for _, fs := range []forage.Rootfs{
		{Kind: forage.RootfsImage, Ref: ref.String()},
		{Kind: forage.RootfsOCI, Ref: writeLayout(t, both...)},
		{Kind: forage.RootfsOCI, Ref: writeLayout(t, nested)},
		{Kind: forage.RootfsOCI, Ref: writeLayout(t,
			mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Annotations: map[string]string{annotationName: "a"}}},
			mutate.IndexAddendum{Add: mine, Descriptor: v1.Descriptor{Annotations: map[string]string{annotationName: "b"}}}) + ":b"},
	} {
		lower, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{})
		if err != nil {
			t.Errorf("%v: %v", fs, err)
			continue
		}
		if diff := cmp.Diff(want, contents(t, lower[0])); diff != "" {
			t.Errorf("%v: tree (-want +got):\n%s", fs, diff)
		}
	}
	testdir.Must(t, remote.WriteIndex(ref, mutate.AppendManifests(empty.Index, both[:1]...)))
	for _, fs := range []forage.Rootfs{
		{Kind: forage.RootfsImage, Ref: ref.String()},
		{Kind: forage.RootfsOCI, Ref: writeLayout(t, both[:1]...)},
	} {
		_, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{})
		if !errors.Is(err, forage.ErrUnsupported) || !strings.Contains(forage.Hint(err), "linux/other64") {
			t.Errorf("%v: %v, hint %q", fs, err, forage.Hint(err))
		}
	}
}

func TestResolveErrors(t *testing.T) {
	img, _ := sample(t)
	two := imageOf(t, tarOf(t, file("two", "2")))
	server := newRegistry(t)
	home := t.TempDir()
	t.Setenv("HOME", home)
	outside := t.TempDir()
	emptyDir := t.TempDir()
	archive := writeArchive(t, img)
	raw, err := os.ReadFile(archive)
	testdir.Must(t, err)
	write(t, filepath.Join(outside, "packed.tar.gz"), string(gzipped(t, raw)))
	write(t, filepath.Join(outside, "text"), strings.Repeat("not a tar ", 100))
	wrong, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "other64", RootFS: v1.RootFS{DiffIDs: diffIDs(t, img)}})
	testdir.Must(t, err)
	tests := []struct {
		fs   forage.Rootfs
		kind error
		text string
	}{
		{forage.Rootfs{Kind: forage.RootfsHost}, forage.ErrUsage, "not an image"},
		{forage.Rootfs{Kind: forage.RootfsDir, Ref: outside + "/absent"}, forage.ErrUsage, "no such file"},
		{forage.Rootfs{Kind: forage.RootfsDir, Ref: archive}, forage.ErrUsage, "not a directory"},
		{forage.Rootfs{Kind: forage.RootfsDir, Ref: emptyDir}, forage.ErrUsage, "empty"},
		{forage.Rootfs{Kind: forage.RootfsDir, Ref: "/"}, forage.ErrRefused, "home"},
		{forage.Rootfs{Kind: forage.RootfsDir, Ref: filepath.Dir(home)}, forage.ErrRefused, "home"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: outside + "/absent"}, forage.ErrUsage, "no such file"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: outside}, forage.ErrUsage, "neither an OCI layout"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: outside + "/packed.tar.gz"}, forage.ErrUsage, "compressed with gzip"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: outside + "/text"}, forage.ErrUsage, "as a tar"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: archive + ":two"}, forage.ErrUsage, "0 images"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeLayout(t, mutate.IndexAddendum{Add: img}, mutate.IndexAddendum{Add: two})}, forage.ErrUsage, "2 images"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeLayout(t, mutate.IndexAddendum{Add: imageOf(t)})}, forage.ErrStart, "0 layers"},
		{forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, wrong)}, forage.ErrUnsupported, "no image for linux"},
		{forage.Rootfs{Kind: forage.RootfsImage, Ref: "UPPER:::"}, forage.ErrUsage, "reference"},
		{forage.Rootfs{Kind: forage.RootfsImage, Ref: server.host + "/absent"}, forage.ErrStart, "pulling"},
		{forage.Rootfs{Kind: forage.RootfsImage, Ref: "192.0.2.1:1/x"}, forage.ErrStart, "pulling"},
	}
	for _, tt := range tests {
		ctx, cancel := t.Context(), func() {}
		if strings.HasPrefix(tt.fs.Ref, "192.0.2.1") { // no answer comes
			ctx, cancel = context.WithTimeout(ctx, 5*time.Second)
		}
		_, _, err := Resolve(ctx, tt.fs, filepath.Join(outside, "cache"), Limits{})
		cancel()
		if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%v: %v, want %v with %q", tt.fs, err, tt.kind, tt.text)
		}
	}
	checkClean(t, filepath.Join(outside, "cache"))
}

func diffIDs(t testing.TB, img v1.Image) []v1.Hash {
	t.Helper()
	config, err := img.ConfigFile()
	testdir.Must(t, err)
	return config.RootFS.DiffIDs
}

// TestResolveVerifies changes each kind of file of an image in turn.
func TestResolveVerifies(t *testing.T) {
	img, _ := sample(t)
	source := writeLayout(t, mutate.IndexAddendum{Add: img})
	blobs, err := filepath.Glob(filepath.Join(source, "blobs/sha256/*"))
	if err != nil || len(blobs) != 4 {
		t.Fatalf("%d blobs, %v", len(blobs), err)
	}
	for _, blob := range blobs {
		raw, err := os.ReadFile(blob)
		testdir.Must(t, err)
		changed := bytes.Clone(raw)
		changed[len(changed)/2] ^= 1
		for what, bad := range map[string][]byte{"changed": changed, "cut": raw[:len(raw)-1], "longer": append(bytes.Clone(raw), ' ')} {
			write(t, blob, string(bad))
			cacheDir := t.TempDir()
			_, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: source}, cacheDir, Limits{})
			if !errors.Is(err, forage.ErrStart) {
				t.Errorf("%s blob: %v", what, err)
			}
			if trees, _ := filepath.Glob(filepath.Join(cacheDir, "trees-1/*")); len(trees) > 0 {
				t.Errorf("%s blob: the cache believes %v", what, trees)
			}
			checkClean(t, cacheDir)
		}
		write(t, blob, string(raw))
	}
}

// TestResolveWrongContent has blobs that are as the manifest says, and content that is not
// as the config says.
// An agent may have made a layout or an archive: nothing of it is read without an end.
func TestResolveEndless(t *testing.T) {
	img, _ := sample(t)
	m, err := img.Manifest()
	testdir.Must(t, err)
	digest, _ := img.Digest()
	endless := func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/zero", path)) }
	pipe := func(path string) error { return errors.Join(os.Remove(path), unix.Mkfifo(path, 0o600)) }
	large := func(path string) error { return os.Truncate(path, maxConfig+1) }
	for what, path := range map[string]string{
		"index": "index.json", "manifest": "blobs/sha256/" + digest.Hex,
		"config": "blobs/sha256/" + m.Config.Digest.Hex, "layer": "blobs/sha256/" + m.Layers[1].Digest.Hex,
	} {
		for name, made := range map[string]func(string) error{"endless": endless, "pipe": pipe, "large": large} {
			dir := writeLayout(t, mutate.IndexAddendum{Add: img})
			testdir.Must(t, made(filepath.Join(dir, path)))
			if _, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: dir}, t.TempDir(), Limits{}); !errors.Is(err, forage.ErrStart) {
				t.Errorf("%s %s: %v", name, what, err)
			}
		}
	}
	manifest := file("manifest.json", `[{"Config":"c","RepoTags":["a:b"],"Layers":["l"]}]`)
	for name, entries := range map[string][]tar.Header{
		"config":           {manifest, file("c", "{}")},
		"another name":     {manifest, file("./c", "{}")},
		"link to a config": {manifest, hardlink("c", "d"), file("d", "{}")},
		"manifest":         {file("c", "{}"), manifest},
	} {
		raw := tarOf(t, entries...)
		path := filepath.Join(t.TempDir(), "image.tar")
		last := bytes.LastIndex(raw, []byte("ustar")) - 257
		copy(raw[last+124:], fmt.Sprintf("%011o\x00", maxConfig+1))
		copy(raw[last+148:], "        ")
		sum := 0
		for _, b := range raw[last : last+512] {
			sum += int(b)
		}
		copy(raw[last+148:], fmt.Sprintf("%06o\x00 ", sum))
		testdir.Must(t, errors.Join(os.WriteFile(path, raw, 0o600), os.Truncate(path, 2*maxConfig)))
		if _, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: path}, t.TempDir(), Limits{}); !errors.Is(err, forage.ErrStart) {
			t.Errorf("a large %s in an archive: %v", name, err)
		}
	}
}

func TestResolveWrongContent(t *testing.T) {
	img, _ := sample(t)
	ids := diffIDs(t, img)
	swapped, err := mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: platform().Architecture, RootFS: v1.RootFS{DiffIDs: []v1.Hash{ids[1], ids[0]}}})
	testdir.Must(t, err)
	for _, ref := range []string{writeLayout(t, mutate.IndexAddendum{Add: swapped}), writeArchive(t, swapped)} {
		cacheDir := t.TempDir()
		_, _, err := Resolve(t.Context(), forage.Rootfs{Kind: forage.RootfsOCI, Ref: ref}, cacheDir, Limits{})
		if !errors.Is(err, forage.ErrStart) || !strings.Contains(err.Error(), "content is") {
			t.Errorf("%s: %v", ref, err)
		}
		checkClean(t, cacheDir)
	}
}

// TestResolveTrailingBomb has what counts behind the end of the archive.
func TestResolveTrailingBomb(t *testing.T) {
	img := imageOf(t, gzipped(t, append(tarOf(t, file("a", "1")), make([]byte, 64<<20)...)))
	fs := forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeLayout(t, mutate.IndexAddendum{Add: img})}
	_, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{Bytes: 1 << 20})
	if !errors.Is(err, forage.ErrStart) || !errors.Is(err, errOverLimit) {
		t.Errorf("error %v", err)
	}
}

// TestResolveLyingRegistry serves other bytes than the manifest names, and breaks off.
func TestResolveLyingRegistry(t *testing.T) {
	img, want := sample(t)
	server := newRegistry(t)
	fs := forage.Rootfs{Kind: forage.RootfsImage, Ref: server.push(t, img)}
	layers, err := img.Layers()
	testdir.Must(t, err)
	digest, err := layers[1].Digest()
	testdir.Must(t, err)
	var broken atomic.Int64
	isLayer := func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/blobs/"+digest.String())
	}
	server.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if !isLayer(r) {
			next.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		next.ServeHTTP(recorded, r)
		body := recorded.Body.Bytes()
		body[len(body)-1] ^= 1
		w.Write(body)
	})
	if _, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{}); !errors.Is(err, forage.ErrStart) {
		t.Errorf("changed layer: %v", err)
	}
	server.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if isLayer(r) && broken.Add(1) == 1 {
			w.Header().Set("Content-Length", "1000000")
			w.Write([]byte("begin"))
			panic(http.ErrAbortHandler)
		}
		next.ServeHTTP(w, r)
	})
	cacheDir := t.TempDir()
	lower, _, err := Resolve(t.Context(), fs, cacheDir, Limits{})
	if err != nil {
		t.Fatalf("broken connection: %v", err)
	}
	if diff := cmp.Diff(want, contents(t, lower[0])); diff != "" || broken.Load() < 2 {
		t.Errorf("after %d tries (-want +got):\n%s", broken.Load(), diff)
	}
	checkClean(t, cacheDir)
}

// TestResolveNeedsTLS: a registry elsewhere must not be asked in the clear, nor send us to a
// service here.
func TestResolveNeedsTLS(t *testing.T) {
	var asked atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer service.Close()
	for _, tt := range []struct {
		url   string
		local bool
		ok    bool
	}{
		{service.URL, true, true},
		{service.URL, false, false},
		{"http://192.0.2.1/", true, false},
		{"http://10.0.0.1/", false, false},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.url, nil)
		testdir.Must(t, err)
		before := asked.Load()
		resp, err := secured{http.DefaultTransport, tt.local}.RoundTrip(r)
		if (err == nil) != tt.ok || (asked.Load() > before) != tt.ok {
			t.Errorf("%s, local %v: %v", tt.url, tt.local, err)
		}
		if err == nil {
			resp.Body.Close()
		}
	}
}

func TestResolveLogin(t *testing.T) {
	img, _ := sample(t)
	server := newRegistry(t)
	fs := forage.Rootfs{Kind: forage.RootfsImage, Ref: server.push(t, img)}
	server.intercept(func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		if user, password, _ := r.BasicAuth(); user != "someone" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	config := t.TempDir()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("DOCKER_CONFIG", config)
	_, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{})
	if !errors.Is(err, forage.ErrStart) || !strings.Contains(forage.Hint(err), "docker login") {
		t.Errorf("without a login: %v, hint %q", err, forage.Hint(err))
	}
	// "c29tZW9uZTpzZWNyZXQ=" is someone:secret.
	write(t, filepath.Join(config, "config.json"), `{"auths":{"`+server.host+`":{"auth":"c29tZW9uZTpzZWNyZXQ="}}}`)
	if _, _, err := Resolve(t.Context(), fs, t.TempDir(), Limits{}); err != nil {
		t.Errorf("with a login: %v", err)
	}
}

// TestResolveFullDisk unpacks to a disk that is too small.
func TestResolveFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a small disk")
	}
	disk := t.TempDir()
	testdir.Must(t, unix.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"))
	defer func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil { // a process that looks at all mounts holds it for a moment
			t.Error(err)
		}
	}()
	cacheDir := filepath.Join(disk, "cache")
	fs := forage.Rootfs{Kind: forage.RootfsOCI, Ref: writeArchive(t, imageOf(t, tarOf(t, file("a", strings.Repeat("x", 4<<20)))))}
	_, _, err := Resolve(t.Context(), fs, cacheDir, Limits{})
	if !errors.Is(err, unix.ENOSPC) || !errors.Is(err, forage.ErrStart) || strings.Contains(err.Error(), "bad image") {
		t.Errorf("error %v", err)
	}
	checkClean(t, cacheDir)
	var st unix.Statfs_t
	if err := unix.Statfs(disk, &st); err != nil || st.Bfree < st.Blocks*9/10 {
		t.Errorf("%d of %d blocks free afterwards, %v", st.Bfree, st.Blocks, err)
	}
}
