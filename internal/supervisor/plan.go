package supervisor

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/egress"
	"forage/internal/policy"
)

// egressConfig is the engine's configuration for a plan under a live policy.
func egressConfig(plan forage.Plan, network forage.Network) (egress.Config, error) {
	rules, err := policy.Compile(network)
	if err != nil {
		return egress.Config{}, err
	}
	config := egress.Config{Sandbox: plan.Name, Policy: rules, Resolve: make(map[string]netip.AddrPort, len(plan.Facts.Resolve))}
	for name, address := range plan.Facts.Resolve {
		if config.Resolve[name], err = netip.ParseAddrPort(address); err != nil {
			return egress.Config{}, forage.Errorf(forage.ErrUsage, "network.resolve %q: %w", name, err)
		}
	}
	if plan.Facts.UpstreamProxy != "" {
		if config.UpstreamProxy, err = url.Parse(plan.Facts.UpstreamProxy); err != nil {
			return egress.Config{}, forage.Errorf(forage.ErrUsage, "network.upstreamProxy: %w", err)
		}
	}
	if plan.Facts.UpstreamCA != "" {
		if config.RootCAs, err = rootsWith(plan.Facts.UpstreamCA); err != nil {
			return egress.Config{}, err
		}
	}
	return config, nil
}

// rootsWith are the host's roots and those in the PEM file at path.
func rootsWith(path string) (*x509.CertPool, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading network.upstreamCA: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("reading the host's roots: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, forage.Errorf(forage.ErrUsage, "network.upstreamCA: %s holds no certificate", path)
	}
	return pool, nil
}

// hasCommand says whether the root filesystem of spec has a command of that
// name on its PATH.
func hasCommand(spec forage.Spec, name string) bool {
	roots := spec.Rootfs.Lower
	if spec.Rootfs.Kind == forage.RootfsHost {
		roots = []string{"/"}
	}
	for _, root := range roots {
		for _, dir := range strings.Split(spec.Env["PATH"], ":") {
			if _, err := os.Lstat(filepath.Join(root, dir, name)); err == nil {
				return true
			}
		}
	}
	return false
}
