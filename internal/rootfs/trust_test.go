package rootfs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"forage"
	"forage/internal/testdir"
)

func TestTrustFiles(t *testing.T) {
	withText := func(m fstest.MapFS, name, text string) fstest.MapFS {
		m[name].Data = []byte(text)
		return m
	}
	fallback := withText(host("etc/ssl/cert.pem"), "etc/ssl/cert.pem", "HOST\n")
	big := strings.Repeat("x", maxBundle+1)
	for name, test := range map[string]struct {
		root    fstest.MapFS
		text    string
		covered []string
		err     string
	}{
		"debian": {
			root: withText(host("etc/ssl/certs/ca-certificates.crt"), "etc/ssl/certs/ca-certificates.crt", "DEBIAN\n"),
			text: "DEBIAN\n\nEXTRA\n", covered: []string{"/etc/ssl/certs/ca-certificates.crt"},
		},
		"fedora, with links": {
			root: withText(host("etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
				"etc/pki/tls/certs/ca-bundle.crt -> /etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
				"etc/ssl/certs -> /etc/pki/tls/certs", "etc/pki/tls/certs/ca-certificates.crt -> ca-bundle.crt"),
				"etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "FEDORA\n"),
			text: "FEDORA\n\nEXTRA\n", covered: []string{"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem"},
		},
		"two that differ": {
			root: withText(host("etc/ssl/certs/ca-certificates.crt", "etc/ssl/cert.pem"), "etc/ssl/certs/ca-certificates.crt", "ONE\n"),
			text: "ONE\n\nEXTRA\n", covered: []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/ssl/cert.pem"},
		},
		"none":             {root: host("etc/passwd"), text: "HOST\n\nEXTRA\n"},
		"a folder instead": {root: host("etc/ssl/cert.pem/"), text: "HOST\n\nEXTRA\n"},
		"a link out":       {root: host("etc/ssl/cert.pem -> ../../../../../../etc/none"), text: "HOST\n\nEXTRA\n"},
		"a link to what is ours": {
			root: host("etc/ssl/cert.pem -> /proc/kcore", "proc/kcore", "etc/ssl/ca-bundle.pem -> /run/forage/x", "run/forage/x",
				"etc/pki/tls/certs/ca-bundle.crt -> /workspace/x", "workspace/x"),
			text: "HOST\n\nEXTRA\n",
		},
		"endless":  {root: withText(host("etc/ssl/cert.pem"), "etc/ssl/cert.pem", big), err: "more than"},
		"a circle": {root: host("etc/ssl/cert.pem -> cert.pem"), err: "too many symbolic links"},
	} {
		files, err := TrustFiles(test.root, fallback, []byte("EXTRA\n"))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := []forage.File{file(BundlePath, test.text), file(javaStorePath, string(javaStore([]byte(test.text))))}
		for _, path := range test.covered {
			want = append(want, file(path, test.text))
		}
		testdir.Same(t, name, want, files)
	}
}

func TestTrustVariables(t *testing.T) {
	if got := trustVariables(""); len(got) > 0 {
		t.Errorf("no bundle: %v", got)
	}
	testdir.Same(t, "the system's", slices.Sorted(slices.Values(bundleVariables)), slices.Sorted(maps.Keys(trustVariables("/etc/ssl/cert.pem"))))
	ours := trustVariables(BundlePath)
	for _, name := range slices.Concat(bundleVariables, ownBundleVariables) {
		if ours[name] != BundlePath {
			t.Errorf("%s is %q", name, ours[name])
		}
	}
	for name := range ours {
		if !slices.Contains(Variables(), name) {
			t.Errorf("doctor --prove takes %s for the host's", name)
		}
	}
	if !strings.Contains(ours["JAVA_TOOL_OPTIONS"], javaStorePath) {
		t.Errorf("Java: %q", ours["JAVA_TOOL_OPTIONS"])
	}
}

// TestJavaStore lets Java's own tool read the store.
func TestJavaStore(t *testing.T) {
	keytool, err := exec.LookPath("keytool")
	if err != nil {
		t.Skip("needs keytool, of a Java")
	}
	text := slices.Concat(rootPEM(t, "Forage One"), []byte("# a comment\n"), rootPEM(t, "Forage Two"),
		pem.EncodeToMemory(&pem.Block{Type: "TRUSTED CERTIFICATE", Bytes: []byte("no")}))
	store := filepath.Join(t.TempDir(), "ca.jks")
	testdir.Must(t, os.WriteFile(store, javaStore(text), 0o600))
	out, err := exec.CommandContext(t.Context(), keytool, "-list", "-v", "-keystore", store, "-storetype", "JKS", "-storepass", jksPassword).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "contains 2 entries") ||
		!strings.Contains(string(out), "Owner: CN=Forage One") || !strings.Contains(string(out), "Owner: CN=Forage Two") {
		t.Errorf("%v\n%s", err, out)
	}
}

func rootPEM(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	testdir.Must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(4e9, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	testdir.Must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
