package image

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"forage"
)

// resolveLocal unpacks an image that is on disk: an OCI layout (image-spec, image-layout.md) or
// what `docker save` writes. ref is PATH or PATH:TAG, where TAG picks one of several images.
func resolveLocal(ctx context.Context, ref, cacheDir string, limits Limits) (string, string, error) {
	path, tag := ref, ""
	info, err := os.Stat(path)
	if i := strings.LastIndexByte(ref, ':'); errors.Is(err, fs.ErrNotExist) && i > 0 && !strings.Contains(ref[i:], "/") {
		path, tag = ref[:i], ref[i+1:]
		info, err = os.Stat(path)
	}
	if err == nil && !info.IsDir() && !info.Mode().IsRegular() {
		err = errors.New("neither a folder nor a file")
	}
	if err != nil {
		return "", "", forage.Errorf(forage.ErrUsage, "root filesystem oci:%s: %w", ref, err)
	}
	find := inArchive
	if info.IsDir() {
		find = inLayout
	}
	p, err := find(path, tag, limits)
	if err != nil {
		return "", "", fmt.Errorf("root filesystem oci:%s: %w", ref, err)
	}
	tree, err := unpackOnce(ctx, cacheDir, p, "oci:"+ref, limits)
	return tree, p.searchPath, err
}

// notAnImage is an error about what is neither a layout nor an archive.
func notAnImage(err error) error {
	return forage.WithHint(
		forage.Errorf(forage.ErrUsage, "neither an OCI layout (index.json) nor a docker-archive (manifest.json): %w", err),
		"`skopeo copy docker://REF oci:PATH` and `docker save REF -o PATH` make one; a layout in a tar has to be unpacked first")
}

// inLayout follows a layout's index down to the one image for this machine.
func inLayout(path, tag string, limits Limits) (*picture, error) {
	if err := checkFile(filepath.Join(path, "index.json"), maxConfig); errors.Is(err, fs.ErrNotExist) {
		return nil, notAnImage(err)
	} else if err != nil {
		return nil, badImage("%w", err)
	}
	index, err := layout.ImageIndexFromPath(path)
	for range 4 {
		if err != nil {
			return nil, badImage("index: %w", err)
		}
		m, err := index.IndexManifest()
		if err != nil {
			return nil, badImage("index: %w", err)
		}
		desc, err := pick(m, tag)
		if err != nil {
			return nil, err
		}
		if err := checkFile(blobPath(path, desc.Digest), maxConfig); err != nil {
			return nil, badImage("manifest: %w", err)
		}
		if desc.MediaType.IsImage() {
			image, err := index.Image(desc.Digest)
			if err == nil {
				err = checkManifest(image, desc)
			}
			if err == nil {
				err = checkBlobs(path, image, limits)
			}
			if err != nil {
				return nil, badImage("manifest: %w", err)
			}
			return describedBy("the layout", image, limits)
		}
		if index, err = index.ImageIndex(desc.Digest); err == nil {
			err = checkManifest(index, desc)
		}
		if err != nil {
			return nil, badImage("index: %w", err)
		}
		tag = ""
	}
	return nil, badImage("indexes nested too deeply")
}

func blobPath(path string, digest v1.Hash) string {
	return filepath.Join(path, "blobs", digest.Algorithm, digest.Hex)
}

// checkFile refuses what the library could not read to its end, or would read whole although it is
// larger than limit: an agent may have made the layout.
func checkFile(file string, limit int64) error {
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > limit) {
		err = fmt.Errorf("%s is no file of at most %d bytes", filepath.Base(file), limit)
	}
	return err
}

// checkBlobs is checkFile for what a manifest names.
func checkBlobs(path string, image v1.Image, limits Limits) error {
	m, err := image.Manifest()
	if err != nil {
		return err
	}
	err = checkFile(blobPath(path, m.Config.Digest), maxConfig)
	for _, l := range m.Layers {
		err = errors.Join(err, checkFile(blobPath(path, l.Digest), limits.Bytes))
	}
	return err
}

// checkManifest verifies a manifest or an index, which the library does not.
func checkManifest(of interface{ RawManifest() ([]byte, error) }, desc v1.Descriptor) error {
	raw, err := of.RawManifest()
	if err == nil {
		err = checkDigest(raw, desc.Digest)
	}
	return err
}

// Annotations that name an image in a layout (image-spec, annotations.md) and in
// what docker save writes.
const (
	annotationName   = "org.opencontainers.image.ref.name"
	annotationDocker = "io.containerd.image.name"
)

// pick chooses the entry of an index that has the tag (if one is given) and runs on this machine.
// Several images and no tag is an error: guessing would run something that was not named.
func pick(index *v1.IndexManifest, tag string) (v1.Descriptor, error) {
	var fit []v1.Descriptor
	var have []string
	for _, d := range index.Manifests {
		named := d.Annotations[annotationName]
		switch p := d.Platform; {
		case !d.MediaType.IsImage() && !d.MediaType.IsIndex():
		case tag != "" && named != tag && d.Annotations[annotationDocker] != tag:
			have = append(have, printable(named))
		case p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH):
			have = append(have, printable(p.String()))
		case !slices.ContainsFunc(fit, func(other v1.Descriptor) bool { return other.Digest == d.Digest }):
			fit = append(fit, d)
		}
	}
	switch {
	case len(fit) == 0 && tag != "":
		return v1.Descriptor{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "no image is called %q", tag), "it has: "+strings.Join(have, ", "))
	case len(fit) == 0:
		return v1.Descriptor{}, wrongPlatform("the index", have...)
	case len(fit) > 1:
		return v1.Descriptor{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "holds %d images", len(fit)), "name one: oci:PATH:TAG")
	}
	return fit[0], nil
}

// inArchive finds an image in a docker-archive (moby, image/spec/spec.md "Combined Image JSON +
// Filesystem Changeset Format") by tag: "name:tag" as docker save wrote it, or its tag alone. Its
// layers are known by their content only.
func inArchive(path, tag string, limits Limits) (*picture, error) {
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	if err := checkPlain(path); err != nil {
		return nil, err
	}
	if err := checkArchive(path, "manifest.json"); err != nil {
		return nil, err
	}
	images, err := tarball.LoadManifest(open)
	if err != nil {
		return nil, notAnImage(fmt.Errorf("reading as a tar: %w", err))
	}
	var configs []string
	for _, image := range images {
		configs = append(configs, image.Config)
	}
	if err := checkArchive(path, configs...); err != nil {
		return nil, err
	}
	var fit, have []string
	layers := 0
	for _, image := range images {
		for _, called := range append(image.RepoTags, "")[:max(1, len(image.RepoTags))] {
			have = append(have, printable(called))
			if tag == "" || called == tag || strings.HasSuffix(called, ":"+tag) {
				fit, layers = append(fit, called), len(image.Layers)
				break
			}
		}
	}
	if len(fit) != 1 {
		return nil, forage.WithHint(forage.Errorf(forage.ErrUsage, "holds %d images called %q", len(fit), tag),
			"name one, as oci:PATH:TAG, of: "+strings.Join(have, ", "))
	}
	var named *name.Tag
	if len(images) > 1 {
		parsed, err := name.NewTag(fit[0])
		if err != nil {
			return nil, badImage("manifest.json: %w", err)
		}
		named = &parsed
	}
	image, err := tarball.Image(open, named)
	if err != nil {
		return nil, badImage("%w", err)
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return nil, badImage("config: %w", err)
	}
	p, err := pictureOf("the archive", config, layers)
	if err != nil {
		return nil, err
	}
	for i, l := range p.layers {
		p.layers[i].size = limits.Bytes
		p.layers[i].open = func() (io.ReadCloser, error) {
			found, err := image.LayerByDiffID(l.diffID)
			if err != nil {
				return nil, err
			}
			return found.Uncompressed()
		}
	}
	return p, nil
}

// checkArchive refuses an archive whose entries say that they are larger than it, or in which one
// that is read whole is too large for that.
func checkArchive(archive string, whole ...string) error {
	f, err := os.Open(archive)
	if err != nil {
		return forage.Errorf(forage.ErrUsage, "%w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	isWhole := func(name string) bool {
		return slices.ContainsFunc(whole, func(one string) bool { return path.Clean(one) == path.Clean(name) })
	}
	for entries := tar.NewReader(f); ; {
		h, err := entries.Next()
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return notAnImage(fmt.Errorf("reading as a tar: %w", err))
		case h.Size > info.Size():
			return badImage("%q says that it is larger than the archive", h.Name)
		case isWhole(h.Name) && (h.Typeflag != tar.TypeReg || h.Size > maxConfig):
			return badImage("%q is no file of at most %d bytes", h.Name, maxConfig)
		}
	}
}

// checkPlain refuses a compressed archive with the name of its compression.
func checkPlain(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return forage.Errorf(forage.ErrUsage, "%w", err)
	}
	defer f.Close()
	head := make([]byte, 4)
	n, _ := io.ReadFull(f, head) // one that is shorter is no tar either
	if c := compression(head[:n]); c != "" {
		return forage.Errorf(forage.ErrUsage, "the archive is compressed with %s: decompress it first", c)
	}
	return nil
}
