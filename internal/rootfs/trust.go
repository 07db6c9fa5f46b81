package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"forage"
)

// Where the roots to trust are inside, when there are others than the root filesystem's own.
const (
	BundlePath    = forage.RunPath + "/ca.pem"
	javaStorePath = forage.RunPath + "/ca.jks"
)

// bundleVariables name a PEM file of roots to the programs that don't read the
// system's: OpenSSL, Go, Rust, Ruby and Python's ssl; Node and Bun; Python's requests,
// pip; curl; git; cargo; AWS's; Deno; Nix.
var bundleVariables = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE",
}

// ownBundleVariables do so to programs that do read the system's, or bring their own, where
// ours is another: npm and pnpm; Yarn; gRPC's C core; Google Cloud's; Hex.
var ownBundleVariables = []string{
	"NPM_CONFIG_CAFILE", "YARN_HTTPS_CA_FILE_PATH", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
	"CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "HEX_CACERTS_PATH",
}

// trustVariables make programs trust the roots in bundle.
func trustVariables(bundle string) map[string]string {
	env := make(map[string]string)
	if bundle == "" {
		return env
	}
	for _, variable := range bundleVariables {
		env[variable] = bundle
	}
	if bundle != BundlePath {
		return env
	}
	for _, variable := range ownBundleVariables {
		env[variable] = bundle
	}
	env["DENO_TLS_CA_STORE"] = "system,mozilla"
	// Java reads no PEM files, and says on stderr that it has seen this.
	env["JAVA_TOOL_OPTIONS"] = "-Djavax.net.ssl.trustStore=" + javaStorePath + " -Djavax.net.ssl.trustStoreType=JKS"
	return env
}

// bundles are where distributions keep all roots in one file.
var bundles = []string{
	"etc/ssl/certs/ca-certificates.crt", "etc/pki/tls/certs/ca-bundle.crt", "etc/ssl/ca-bundle.pem", "etc/ssl/cert.pem",
}

// SystemBundle is the path of the host's file with all roots, which the host view
// shows, or "" where it has none.
func SystemBundle(host fs.FS) string {
	for _, path := range bundles {
		if _, info, err := resolve(host, path); err == nil && readableByAll(info) {
			return "/" + path
		}
	}
	return ""
}

// TrustFiles make what runs on the root filesystem root trust the certificates in
// extra (PEM) beside its own: a file at BundlePath, one for Java, and files
// over the root filesystem's own bundles, for programs that know of nothing else. Where root
// has none, the roots are those of fallback.
func TrustFiles(root, fallback fs.FS, extra []byte) ([]forage.File, error) {
	own, covered, err := systemRoots(root)
	if err == nil && covered == nil {
		own, _, err = systemRoots(fallback)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the roots to trust: %w", err)
	}
	text := slices.Concat(own, []byte("\n"), extra)
	files := []forage.File{{Path: BundlePath, Content: text, Mode: 0o444}, {Path: javaStorePath, Content: javaStore(text), Mode: 0o444}}
	for _, path := range covered { // one content, which a runtime need not keep twice
		files = append(files, forage.File{Path: path, Content: text, Mode: 0o444})
	}
	return files, nil
}

// notCovered are folders that every sandbox has its own of: a bundle there is a link of
// an image that means something else.
var notCovered = []string{"/proc", "/sys", "/dev", "/run", "/tmp", "/var/tmp", "/home", forage.WorkspacePath}

// systemRoots are the contents of a root filesystem's first bundle, and the
// absolute paths of all of them, without links.
func systemRoots(root fs.FS) (text []byte, paths []string, err error) {
	for _, name := range bundles {
		path, info, err := resolve(root, name)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || err == nil && !info.Mode().IsRegular() {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if slices.Contains(paths, path) || slices.ContainsFunc(notCovered, func(dir string) bool { return Within(path, dir) }) {
			continue
		}
		paths = append(paths, path)
		if len(paths) == 1 {
			if text, err = readBundle(root, path[1:]); err != nil {
				return nil, nil, err
			}
		}
	}
	return text, paths, nil
}

// maxBundle is many times what all public roots take, in bytes. An image is hostile.
const maxBundle = 2 << 20

func readBundle(root fs.FS, name string) ([]byte, error) {
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxBundle+1))
	if err == nil && len(text) > maxBundle {
		err = fmt.Errorf("/%s has more than %d bytes", name, maxBundle)
	}
	return text, err
}
