package image

import (
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"forage"
)

// maxConfig and maxLayers bound what an image says of itself.
const (
	maxConfig = 8 << 20
	maxLayers = 1024
)

// picture is an image that was found but not unpacked yet.
type picture struct {
	searchPath string
	digest     string  // of its manifest; "" where there is none
	layers     []layer // lowest first
}

// layer is one change set of an image.
type layer struct {
	diffID v1.Hash // of the tar; what is believed in the end
	blob   v1.Hash // of the bytes that open gives; zero where nothing says
	size   int64   // of the bytes that open gives, at most
	remote bool    // open goes over the network
	open   func() (io.ReadCloser, error)
}

// size is of all layers as they are downloaded, in bytes.
func (p *picture) size() (n int64) {
	for _, l := range p.layers {
		n += l.size
	}
	return n
}

// chainID names the tree that the layers make (OCI image-spec, config.md "Layer ChainID").
func (p *picture) chainID() v1.Hash {
	id := p.layers[0].diffID
	for _, l := range p.layers[1:] {
		sum := sha256.Sum256([]byte(id.String() + " " + l.diffID.String()))
		id = v1.Hash{Algorithm: "sha256", Hex: fmt.Sprintf("%x", sum)}
	}
	return id
}

// platform is what images must be made for.
func platform() v1.Platform { return v1.Platform{OS: "linux", Architecture: runtime.GOARCH} }

// wrongPlatform says that there is no image for this machine.
func wrongPlatform(what string, have ...string) error {
	err := forage.Errorf(forage.ErrUnsupported, "%s has no image for %s", what, platform())
	if len(have) == 0 {
		return err
	}
	return forage.WithHint(err, "it has: "+strings.Join(have, ", "))
}

// describedBy is an image with a manifest, whose layers are known by their bytes.
func describedBy(what string, image v1.Image, limits Limits) (*picture, error) {
	m, err := image.Manifest()
	if err != nil {
		return nil, err
	}
	if m.Config.Size < 0 || m.Config.Size > maxConfig {
		return nil, badImage("config of %d bytes", m.Config.Size)
	}
	raw, err := image.RawConfigFile()
	if err == nil {
		err = checkDigest(raw, m.Config.Digest)
	}
	if err != nil {
		return nil, badImage("config: %w", err)
	}
	p, err := pictureOf(what, raw, len(m.Layers))
	if err != nil {
		return nil, err
	}
	if digest, err := image.Digest(); err == nil {
		p.digest = digest.String()
	}
	left := limits.Bytes
	for i, d := range m.Layers {
		if d.Size < 0 || d.Size > left {
			return nil, tooLarge(limits)
		}
		if left -= d.Size; len(d.URLs) > 0 {
			return nil, forage.Errorf(forage.ErrUnsupported, "the image keeps layers outside its registry")
		}
		p.layers[i].blob, p.layers[i].size = d.Digest, d.Size
		p.layers[i].open = func() (io.ReadCloser, error) {
			l, err := image.LayerByDigest(d.Digest)
			if err != nil {
				return nil, err
			}
			return l.Compressed()
		}
	}
	return p, nil
}

// pictureOf reads an image's config, which must be for this machine and name each of n layers.
func pictureOf(what string, raw []byte, n int) (*picture, error) {
	config, err := v1.ParseConfigFile(strings.NewReader(string(raw)))
	if err != nil {
		return nil, badImage("config: %w", err)
	}
	if ids := len(config.RootFS.DiffIDs); n == 0 || n > maxLayers || ids != n {
		return nil, badImage("%d layers, and %d named by the config", n, ids)
	}
	if p := config.Platform(); p != nil {
		if (p.OS != "" && p.OS != "linux") || (p.Architecture != "" && p.Architecture != runtime.GOARCH) {
			return nil, wrongPlatform(what, printable(p.String()))
		}
	}
	p := &picture{searchPath: searchPath(config.Config)}
	for _, id := range config.RootFS.DiffIDs {
		if _, err := v1.NewHash(id.String()); err != nil || id.Algorithm != "sha256" { // its text becomes a file name
			return nil, badImage("config: digest %q is not known", id)
		}
		p.layers = append(p.layers, layer{diffID: id})
	}
	return p, nil
}

// checkDigest compares raw with its digest.
func checkDigest(raw []byte, want v1.Hash) error {
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("digest is sha256:%s, want %q", got, want)
	}
	return nil
}

func tooLarge(l Limits) error {
	return badImage("larger than %d bytes or %d files", l.Bytes, l.Entries)
}
