package rootfs

import (
	"crypto/sha1"
	"encoding/binary"
	"encoding/pem"
	"fmt"
	"unicode/utf16"
)

// The parts of Java's own key store format, JKS, as sun.security.provider.JavaKeyStore (OpenJDK)
// reads it. It is no longer the default, and the only one that every Java since 1.2 reads
// which needs no encryption.
const (
	jksMagic   = 0xfeedfeed
	jksVersion = 2
	jksTrusted = 2 // tag of an entry that is a trusted certificate
)

// jksPassword is what everybody's trust store has. It keeps nothing secret, and Java
// checks the digest only when it is given one.
const jksPassword = "changeit"

// javaStore makes a JKS of the certificates in a text of PEM blocks.
func javaStore(text []byte) []byte {
	var entries []byte
	count := uint32(0)
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		entries = binary.BigEndian.AppendUint32(entries, jksTrusted)
		entries = appendUTF(entries, fmt.Sprintf("forage-%d", count))
		entries = binary.BigEndian.AppendUint64(entries, 0) // made in 1970: the same text makes the same file
		entries = appendUTF(entries, "X.509")
		entries = binary.BigEndian.AppendUint32(entries, uint32(len(block.Bytes)))
		entries = append(entries, block.Bytes...)
		count++
	}
	store := binary.BigEndian.AppendUint32(nil, jksMagic)
	store = binary.BigEndian.AppendUint32(store, jksVersion)
	store = binary.BigEndian.AppendUint32(store, count)
	store = append(store, entries...)
	digest := sha1.New() // what the format asks for; nothing relies on it
	for _, unit := range utf16.Encode([]rune(jksPassword)) {
		digest.Write(binary.BigEndian.AppendUint16(nil, unit))
	}
	digest.Write([]byte("Mighty Aphrodite"))
	digest.Write(store)
	return digest.Sum(store)
}

// appendUTF is java.io.DataOutput's writeUTF, for ASCII.
func appendUTF(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}
