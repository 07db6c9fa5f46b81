package provider

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strings"

	"forage"
)

const (
	alphanumeric = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	// awsSecret is the length of the second half of an AWS key.
	awsSecret = 40
)

// Placeholder is what stands for a secret inside a sandbox: of the service's shape,
// the same for the same names, and no secret. For AWS it is KEYID:SECRET. The zero Service
// gives one of no service's shape.
func Placeholder(p Service, sandbox, secret string) string {
	if p.Prefix == "" {
		p.Prefix, p.Length = "forage-placeholder-", 51
	}
	alphabet := p.Alphabet
	alphabet = cmp.Or(alphabet, alphanumeric)
	text := p.Prefix + derive(alphabet, p.Length-len(p.Prefix), "placeholder", sandbox, secret)
	if p.signed() {
		text += ":" + derive(alphanumeric, awsSecret, "placeholder of a signing key", sandbox, secret)
	}
	return text
}

// Environ are the variables in which the service's clients inside expect the placeholder.
func (p Service) Environ(placeholder string) map[string]string {
	env := map[string]string{}
	for _, name := range p.Env {
		env[name] = placeholder
	}
	for name, value := range p.With {
		env[name] = value
	}
	if id, key, ok := strings.Cut(placeholder, ":"); ok && p.signed() {
		env["AWS_ACCESS_KEY_ID"], env["AWS_SECRET_ACCESS_KEY"] = id, key
	}
	return env
}

func (p Service) signed() bool {
	return len(p.Uses) > 0 && p.Uses[0].Place == forage.PlaceSigV4
}

// derive makes n characters of the alphabet out of parts.
func derive(alphabet string, n int, parts ...string) string {
	seed := sha256.New()
	for _, part := range parts {
		binary.Write(seed, binary.BigEndian, uint64(len(part)))
		seed.Write([]byte(part))
	}
	block := seed.Sum(nil)
	text := make([]byte, 0, max(n, 0))
	for len(text) < n {
		for _, b := range block {
			if len(text) < n {
				text = append(text, alphabet[int(b)%len(alphabet)])
			}
		}
		next := sha256.Sum256(block)
		block = next[:]
	}
	return string(text)
}
