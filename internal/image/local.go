package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"forage"
)

// resolveLocal unpacks an image that is on disk. ref is PATH or PATH:TAG, where
// TAG picks one of several images.
func resolveLocal(ctx context.Context, ref, cacheDir string, o Options) (string, Info, error) {
	name, tag := splitTag(ref)
	from, err := openFiles(name)
	if err != nil {
		return "", Info{}, forage.Errorf(forage.ErrUsage, "root filesystem oci:%s: %w", ref, err)
	}
	defer from.Close()
	p, err := pictureIn(from, tag, o.Limits)
	if err != nil {
		return "", Info{}, fmt.Errorf("root filesystem oci:%s: %w", ref, err)
	}
	tree, err := unpackOnce(ctx, cacheDir, p, "oci:"+ref, o)
	return tree, p.info, err
}

// splitTag takes ":TAG" off a path, unless a file is called so as a whole.
func splitTag(ref string) (name, tag string) {
	if _, err := os.Lstat(ref); err == nil {
		return ref, ""
	}
	if i := strings.LastIndexByte(ref, ':'); i > 0 && !strings.Contains(ref[i:], "/") {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}

// pictureIn finds the image in from, which is an OCI layout (image-spec,
// image-layout.md) or what `docker save` writes; newer engines write both at once.
func pictureIn(from files, tag string, limits Limits) (*picture, error) {
	index, err := readFile(from, "index.json", maxManifest)
	if err == nil {
		return pictureInLayout(from, index, tag, limits)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, badImage("%w", err)
	}
	list, err := readFile(from, "manifest.json", maxManifest)
	if err == nil {
		return pictureInArchive(from, list, tag)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, badImage("%w", err)
	}
	return nil, forage.WithHint(
		forage.Errorf(forage.ErrUsage, "neither an OCI layout (index.json) nor a docker-archive (manifest.json)"),
		"`skopeo copy docker://REF oci:PATH` and `docker save REF -o PATH` make one")
}

// Annotations that name an image in a layout (image-spec, annotations.md) and in
// what docker save writes.
const (
	annotationName   = "org.opencontainers.image.ref.name"
	annotationDocker = "io.containerd.image.name"
)

// pictureInLayout follows an index down to the one image for this machine.
func pictureInLayout(from files, index []byte, tag string, limits Limits) (*picture, error) {
	desc, err := pick(index, tag)
	for depth := 0; err == nil && desc.MediaType.IsIndex(); depth++ {
		if depth == 4 {
			return nil, badImage("indexes nested too deeply")
		}
		if index, err = readBlob(from, desc.Digest, maxManifest); err == nil {
			desc, err = pick(index, "")
		}
	}
	if err != nil {
		return nil, err
	}
	raw, err := readBlob(from, desc.Digest, maxManifest)
	if err != nil {
		return nil, err
	}
	m, err := v1.ParseManifest(strings.NewReader(string(raw)))
	if err != nil {
		return nil, badImage("manifest: %w", err)
	}
	if err := checkLayers(m.Layers, limits); err != nil {
		return nil, err
	}
	config, err := readBlob(from, m.Config.Digest, maxConfig)
	if err != nil {
		return nil, err
	}
	return pictureOf("the layout", m, config, func(d v1.Descriptor) func(context.Context) (io.ReadCloser, error) {
		return func(context.Context) (io.ReadCloser, error) {
			f, _, err := from.open(blobPath(d.Digest))
			return f, err
		}
	})
}

// pictureOf puts a manifest and its config together.
func pictureOf(what string, m *v1.Manifest, rawConfig []byte, opener func(v1.Descriptor) func(context.Context) (io.ReadCloser, error)) (*picture, error) {
	config, err := readConfig(what, rawConfig, m.Config.Digest, len(m.Layers))
	if err != nil {
		return nil, err
	}
	p := &picture{info: infoOf(m.Config.Digest, config.Config)}
	for i, d := range m.Layers {
		p.layers = append(p.layers, layer{diffID: config.RootFS.DiffIDs[i], blob: d.Digest, size: d.Size, open: opener(d)})
	}
	return p, nil
}

// pick chooses the entry of an index that has the tag (if one is given) and runs on this machine.
// Several images and no tag is an error: guessing would run something that was not named.
func pick(index []byte, tag string) (v1.Descriptor, error) {
	m, err := v1.ParseIndexManifest(strings.NewReader(string(index)))
	if err != nil {
		return v1.Descriptor{}, badImage("index: %w", err)
	}
	var fit []v1.Descriptor
	var have []string
	for _, d := range m.Manifests {
		if !d.MediaType.IsImage() && !d.MediaType.IsIndex() {
			continue
		}
		named := d.Annotations[annotationName]
		if tag != "" && named != tag && d.Annotations[annotationDocker] != tag {
			have = append(have, printable(named))
			continue
		}
		if p := d.Platform; p != nil && (p.OS != "linux" || p.Architecture != runtime.GOARCH) {
			have = append(have, printable(p.String()))
			continue
		}
		fit = append(fit, d)
	}
	switch {
	case len(fit) == 0 && tag != "":
		return v1.Descriptor{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "no image is called %q", tag), "it has: "+strings.Join(have, ", "))
	case len(fit) == 0:
		return v1.Descriptor{}, wrongPlatform("the index", have)
	case len(fit) > 1 && distinct(fit):
		return v1.Descriptor{}, forage.WithHint(forage.Errorf(forage.ErrUsage, "holds %d images", len(fit)), "name one: oci:PATH:TAG")
	}
	return fit[0], nil
}

// distinct reports whether the descriptors differ in what they name.
func distinct(ds []v1.Descriptor) bool {
	for _, d := range ds {
		if d.Digest != ds[0].Digest {
			return true
		}
	}
	return false
}

// blobPath is where a layout keeps a blob. Its digest has been checked.
func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }

// readBlob reads and verifies a small blob of a layout.
func readBlob(from files, h v1.Hash, limit int64) ([]byte, error) {
	if err := checkHash(h); err != nil {
		return nil, badImage("%w", err)
	}
	raw, err := readFile(from, blobPath(h), limit)
	if err == nil {
		err = checkDigest(raw, h)
	}
	if err != nil {
		return nil, badImage("blob: %w", err)
	}
	return raw, nil
}

// savedImage is one entry of a docker-archive's manifest.json
// (moby, image/spec/spec.md "Combined Image JSON + Filesystem Changeset Format").
type savedImage struct {
	Config   string   `json:"Config"`
	RepoTags []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

// pictureInArchive reads a docker-archive. Its layers are known by diffID only.
func pictureInArchive(from files, list []byte, tag string) (*picture, error) {
	var images []savedImage
	if err := json.Unmarshal(list, &images); err != nil {
		return nil, badImage("manifest.json: %w", err)
	}
	image, err := pickSaved(images, tag)
	if err != nil {
		return nil, err
	}
	raw, err := readFile(from, image.Config, maxConfig)
	if err != nil {
		return nil, badImage("config: %w", err)
	}
	digest, _, err := v1.SHA256(strings.NewReader(string(raw))) // the archive names none that could be checked
	if err != nil {
		return nil, err
	}
	config, err := readConfig("the archive", raw, digest, len(image.Layers))
	if err != nil {
		return nil, err
	}
	p := &picture{info: infoOf(digest, config.Config)}
	for i, name := range image.Layers {
		f, size, err := from.open(name)
		if err != nil {
			return nil, badImage("layer: %w", err)
		}
		f.Close()
		p.layers = append(p.layers, layer{diffID: config.RootFS.DiffIDs[i], size: size, open: func(context.Context) (io.ReadCloser, error) {
			f, _, err := from.open(name)
			return f, err
		}})
	}
	return p, nil
}

// pickSaved chooses an image by tag: "name:tag" as docker save wrote it, or its tag alone.
func pickSaved(images []savedImage, tag string) (savedImage, error) {
	var fit []savedImage
	var have []string
	for _, image := range images {
		match := tag == ""
		for _, t := range image.RepoTags {
			have = append(have, printable(t))
			match = match || t == tag || strings.HasSuffix(t, ":"+tag)
		}
		if match {
			fit = append(fit, image)
		}
	}
	if len(fit) == 1 {
		return fit[0], nil
	}
	err := forage.Errorf(forage.ErrUsage, "holds %d images called %q", len(fit), tag)
	if tag == "" {
		err = forage.Errorf(forage.ErrUsage, "holds %d images", len(fit))
	}
	return savedImage{}, forage.WithHint(err, "name one, as oci:PATH:TAG, of: "+strings.Join(have, ", "))
}
