package image

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/google/renameio/v2"

	"forage"
)

// resolveRemote unpacks an image from a registry (OCI distribution-spec). A
// reference that was pulled before is not asked for again.
func resolveRemote(ctx context.Context, ref, cacheDir string, limits Limits) (string, string, error) {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return "", "", forage.WithHint(forage.Errorf(forage.ErrUsage, "root filesystem image:%s: %w", ref, err),
			"name an image like debian:12, a layout or archive as oci:PATH, a folder as dir:PATH")
	}
	c, err := openCache(cacheDir)
	if err != nil {
		return "", "", err
	}
	if tree, searchPath, ok := c.known(parsed.Name()); ok {
		return tree, searchPath, nil
	}
	p, err := pictureAt(ctx, parsed, limits)
	if err != nil {
		return "", "", pullError(ref, err)
	}
	tree, err := unpackOnce(ctx, c.dir, p, "image:"+ref, limits)
	if err != nil {
		return "", "", err
	}
	record := refRecord{Ref: parsed.Name(), Tree: p.chainID().Hex, Path: p.searchPath, Pulled: time.Now().UTC()}
	raw, err := json.Marshal(record)
	if err == nil {
		err = renameio.WriteFile(c.refPath(record.Ref), raw, 0o600, renameio.WithTempDir(filepath.Join(c.dir, "refs-2")))
	}
	return tree, p.searchPath, err
}

// pictureAt asks a registry for an image's manifest and config.
func pictureAt(ctx context.Context, ref name.Reference, limits Limits) (*picture, error) {
	desc, err := remote.Get(ref,
		remote.WithContext(ctx),
		remote.WithPlatform(platform()),
		remote.WithTransport(unstalled{secured{remote.DefaultTransport, isLoopback(hostOf(ref))}}),
		remote.WithAuthFromKeychain(authn.DefaultKeychain),
		remote.WithUserAgent("forage"))
	if err != nil {
		return nil, err
	}
	image, err := desc.Image()
	if err != nil {
		if desc.MediaType.IsIndex() {
			err = indexError(ref, desc, err)
		}
		return nil, err
	}
	p, err := describedBy(ref.Name(), image, limits)
	if err != nil {
		return nil, err
	}
	for i := range p.layers {
		p.layers[i].remote = true
	}
	return p, nil
}

// indexError says what an index has when it has nothing for this machine.
func indexError(ref name.Reference, desc *remote.Descriptor, err error) error {
	index, indexErr := desc.ImageIndex()
	if indexErr != nil {
		return err
	}
	m, indexErr := index.IndexManifest()
	if indexErr != nil {
		return err
	}
	var have []string
	for _, d := range m.Manifests {
		if d.Platform == nil {
			continue
		}
		if d.Platform.Satisfies(platform()) {
			return err // there is one, and it failed otherwise
		}
		have = append(have, printable(d.Platform.String()))
	}
	return wrongPlatform(ref.Name(), have...)
}

// pullError says whose fault a failed pull is.
func pullError(ref string, err error) error {
	wrapped := fmt.Errorf("pulling image:%s: %w", ref, err)
	if !errors.Is(err, forage.ErrUnsupported) {
		wrapped = forage.Errorf(forage.ErrStart, "%w", wrapped)
	}
	var network net.Error
	if errors.As(err, &network) {
		return forage.WithHint(wrapped, "check the name, and that this machine reaches the registry")
	}
	var answer *transport.Error
	if errors.As(err, &answer) {
		switch answer.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden:
			return forage.WithHint(wrapped, "log in with `docker login` or `podman login`, whose files are read, or check the name")
		case http.StatusNotFound:
			return forage.WithHint(wrapped, "check the name and the tag")
		}
	}
	return wrapped
}

// secured refuses plain HTTP, except to this machine when the image is kept on it:
// neither an image under a tag nor a login may depend on a network that anybody can
// answer on, and no registry may send us to a service here.
type secured struct {
	next  http.RoundTripper
	local bool // the registry itself is on this machine
}

func (s secured) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !(s.local && isLoopback(r.URL.Hostname())) {
		return nil, fmt.Errorf("%s would be asked without TLS, which is for registries on this machine only", r.URL.Host)
	}
	return s.next.RoundTrip(r)
}

// hostOf is the host of a reference's registry, without its port.
func hostOf(ref name.Reference) string {
	return (&url.URL{Host: ref.Context().RegistryStr()}).Hostname()
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
