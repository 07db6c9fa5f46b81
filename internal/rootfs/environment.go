package rootfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"forage"
)

// systemPath is the PATH of every root filesystem that doesn't say its own.
const systemPath = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"

// Environment is what every sandbox begins with. tools are folders to look for
// commands in first; bundle is the path inside of a PEM file with the roots to trust,
// or "" for whatever the root filesystem trusts.
func Environment(name string, who forage.Identity, shell string, tools []string, bundle string) map[string]string {
	proxy := "http://127.0.0.1:" + strconv.Itoa(forage.ProxyPort)
	path := append(append([]string{}, tools...), who.Home+"/.local/bin", systemPath)
	if shell == "/run/current-system/sw/bin/bash" { // NixOS has nothing in /usr/bin
		path = append(path, "/run/current-system/sw/bin")
	}
	env := map[string]string{
		"PATH": strings.Join(path, ":"), "HOME": who.Home, "USER": who.User, "LOGNAME": who.User,
		"SHELL": shell, "TERM": "xterm-256color", "LANG": "C.UTF-8",
		"FORAGE_SANDBOX": name, "AGENT_SANDBOX": "1",
	}
	for variable, value := range map[string]string{
		"http_proxy": proxy, "https_proxy": proxy, "all_proxy": proxy, "no_proxy": "localhost,127.0.0.1,::1",
	} {
		env[variable], env[strings.ToUpper(variable)] = value, value
	}
	if bundle != "" {
		for _, variable := range bundleVariables {
			env[variable] = bundle
		}
	}
	return env
}

// bundleVariables name a PEM file of roots to the programs that don't read the
// system's: OpenSSL, Go and Rust; Node and Bun; Python's requests, pip; curl; git; cargo; AWS's; Deno; Nix.
var bundleVariables = []string{
	"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE",
	"GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO", "AWS_CA_BUNDLE", "DENO_CERT", "NIX_SSL_CERT_FILE",
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

// BundlePath is where Bundle's file is inside.
const BundlePath = forage.RunPath + "/ca.pem"

// Bundle is the roots of the root filesystem at root together with those in
// the PEM file extra, as a file at BundlePath.
func Bundle(root fs.FS, extra string) (forage.File, error) {
	own, err := os.ReadFile(extra)
	if err != nil {
		return forage.File{}, forage.Errorf(forage.ErrUsage, "reading network.upstreamCA: %w", err)
	}
	for _, path := range bundles {
		text, err := fs.ReadFile(root, path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return forage.File{}, fmt.Errorf("reading the roots to trust: %w", err)
		}
		own = append(append(text, '\n'), own...)
		break
	}
	return file(BundlePath, string(own)), nil
}
