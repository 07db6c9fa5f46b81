package egress

import (
	"crypto/ecdh"
	"crypto/rand"
	"testing"

	"golang.org/x/crypto/cryptobyte"
)

// echConfig is an ECHConfigList (RFC 9849, 4) whose client-facing server is name.
func echConfig(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	var b cryptobyte.Builder
	b.AddUint16LengthPrefixed(func(list *cryptobyte.Builder) {
		list.AddUint16(0xfe0d)
		list.AddUint16LengthPrefixed(func(c *cryptobyte.Builder) {
			c.AddUint8(7)       // config id
			c.AddUint16(0x0020) // DHKEM(X25519, HKDF-SHA256)
			c.AddUint16LengthPrefixed(func(c *cryptobyte.Builder) { c.AddBytes(key.PublicKey().Bytes()) })
			c.AddUint16LengthPrefixed(func(c *cryptobyte.Builder) { c.AddUint16(1); c.AddUint16(1) })
			c.AddUint8(32)
			c.AddUint8LengthPrefixed(func(c *cryptobyte.Builder) { c.AddBytes([]byte(name)) })
			c.AddUint16(0)
		})
	})
	out, err := b.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return out
}
