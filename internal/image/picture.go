package image

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"forage"
)

// Bounds of the small files of an image. Registries refuse manifests over 4 MiB.
const (
	maxManifest = 4 << 20
	maxConfig   = 8 << 20
	maxLayers   = 1024
)

// picture is an image that was found but not unpacked yet.
type picture struct {
	info   Info
	layers []layer // lowest first
}

// layer is one change set of an image.
type layer struct {
	diffID v1.Hash // of the tar; what is believed in the end
	blob   v1.Hash // of the bytes that open gives; zero where nothing says
	size   int64   // of the bytes that open gives
	remote bool    // open goes over the network
	open   func(context.Context) (io.ReadCloser, error)
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

func (p *picture) size() (total int64) {
	for _, l := range p.layers {
		total += l.size
	}
	return total
}

// platform is what images must be made for.
func platform() v1.Platform {
	return v1.Platform{OS: "linux", Architecture: runtime.GOARCH}
}

// wrongPlatform says that there is no image for this machine.
func wrongPlatform(what string, have []string) error {
	err := forage.Errorf(forage.ErrUnsupported, "%s has no image for %s", what, platform())
	if len(have) == 0 {
		return err
	}
	return forage.WithHint(err, "it has: "+strings.Join(have, ", "))
}

// readConfig checks raw against its digest and gives the parsed config, which
// must be for this machine and name each of n layers.
func readConfig(what string, raw []byte, want v1.Hash, n int) (*v1.ConfigFile, error) {
	if err := checkDigest(raw, want); err != nil {
		return nil, badImage("config: %w", err)
	}
	config, err := v1.ParseConfigFile(strings.NewReader(string(raw)))
	if err != nil {
		return nil, badImage("config: %w", err)
	}
	if ids := len(config.RootFS.DiffIDs); n == 0 || n > maxLayers || ids != n {
		return nil, badImage("%d layers, and %d named by the config", n, ids)
	}
	if p := config.Platform(); p != nil {
		if (p.OS != "" && p.OS != "linux") || (p.Architecture != "" && p.Architecture != runtime.GOARCH) {
			return nil, wrongPlatform(what, []string{printable(p.String())})
		}
	}
	for _, id := range config.RootFS.DiffIDs {
		if err := checkHash(id); err != nil {
			return nil, badImage("config: %w", err)
		}
	}
	return config, nil
}

// checkHash accepts digests that this package can verify, and whose text is a safe file name.
func checkHash(h v1.Hash) error {
	if _, err := v1.NewHash(h.String()); err != nil {
		return err
	}
	if h.Algorithm != "sha256" {
		return fmt.Errorf("digest algorithm %q is not known", h.Algorithm)
	}
	return nil
}

// checkDigest compares raw with its digest.
func checkDigest(raw []byte, want v1.Hash) error {
	if got := fmt.Sprintf("%x", sha256.Sum256(raw)); want.Algorithm != "sha256" || got != want.Hex {
		return fmt.Errorf("digest is sha256:%s, want %q", got, want)
	}
	return nil
}

// checkLayers bounds the descriptors of a manifest.
func checkLayers(layers []v1.Descriptor, limits Limits) error {
	var total int64
	for _, d := range layers {
		if err := checkHash(d.Digest); err != nil {
			return badImage("layer: %w", err)
		}
		if d.Size < 0 || d.Size > limits.Bytes-total {
			return tooLarge(limits)
		}
		if len(d.URLs) > 0 {
			return forage.Errorf(forage.ErrUnsupported, "the image keeps layers outside its registry")
		}
		total += d.Size
	}
	return nil
}

func tooLarge(l Limits) error {
	return badImage("larger than %d bytes or %d files", l.Bytes, l.Entries)
}

// readAll reads a small file of an image, at most limit bytes.
func readAll(r io.Reader, limit int64) ([]byte, error) {
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = fmt.Errorf("larger than %d bytes", limit)
	}
	return raw, err
}
