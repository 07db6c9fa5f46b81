package credential

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"forage"
)

// signer is an AWS key.
type signer struct {
	id, secret, session string
	expires             time.Time // zero: never
}

// newSigner reads KEYID:SECRET[:SESSION], or the JSON of `aws configure export-credentials`
// and of credential_process.
func newSigner(value string) (*signer, error) {
	s := &signer{}
	if strings.HasPrefix(value, "{") {
		var key struct {
			AccessKeyID     string `json:"AccessKeyId"`
			SecretAccessKey string
			SessionToken    string
			Expiration      *time.Time
		}
		if err := json.Unmarshal([]byte(value), &key); err != nil {
			return nil, errNoKey()
		}
		s.id, s.secret, s.session = key.AccessKeyID, key.SecretAccessKey, key.SessionToken
		if key.Expiration != nil {
			s.expires = *key.Expiration
		}
	} else if parts := strings.SplitN(value, ":", 3); len(parts) >= 2 {
		s.id, s.secret = parts[0], parts[1]
		if len(parts) == 3 {
			s.session = parts[2]
		}
	}
	if s.id == "" || s.secret == "" || strings.ContainsAny(s.id, "/,= ") || hasControl(s.id+s.session) {
		return nil, errNoKey()
	}
	return s, nil
}

func errNoKey() error {
	return forage.WithHint(errors.New("its value is no AWS key"),
		"expected KEYID:SECRET, KEYID:SECRET:SESSION, or what `aws configure export-credentials` prints")
}

// expired says so when the key has.
func (s *signer) expired(now time.Time) error {
	if s.expires.IsZero() || now.Before(s.expires) {
		return nil
	}
	return forage.WithHint(fmt.Errorf("the AWS key has expired at %s", s.expires.UTC().Format(time.RFC3339)), "log in again on the host")
}

// hide are the parts that must not come back. The key's name goes out with every request.
func (s *signer) hide() []string { return []string{s.secret, s.session} }

// bodyMax bounds what is read of a body to sign it, where its sender has not told its hash: more
// than the largest request of a service other than S3.
const bodyMax = 16 << 20

// payloadHash is the hash of r's body as it is signed. The client's own is kept: the service
// compares it with the body. A signature of every chunk was made with the client's key and can't
// be.
func payloadHash(r *http.Request, sc scope) (hash, refused string) {
	said := r.Header["X-Amz-Content-Sha256"]
	switch {
	case len(said) > 1:
		return "", "the request has more than one X-Amz-Content-Sha256"
	case len(said) == 1 && (said[0] == unsigned || said[0] == unsignedTrail || isHash(said[0])):
		return said[0], ""
	case len(said) == 1 && strings.HasPrefix(said[0], "STREAMING-"):
		return "", "a body whose chunks are signed one by one can't be signed again: turn that off in the client, " +
			"so that it sends " + unsigned + " or " + unsignedTrail
	case len(said) == 1:
		return "", "the request's X-Amz-Content-Sha256 is no hash"
	case r.Body == nil || r.Body == http.NoBody || r.ContentLength == 0:
		return hashOf(nil), ""
	case sc.isS3():
		return unsigned, ""
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, bodyMax+1))
	if err != nil {
		return "", "the body of the request can't be read to its end"
	}
	if len(text) > bodyMax {
		return "", fmt.Sprintf("the body of the request is longer than %d MiB, and has no X-Amz-Content-Sha256", bodyMax>>20)
	}
	r.Body.Close()
	r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
	r.TransferEncoding = nil
	return hashOf(text), ""
}

func hashOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func isHash(text string) bool {
	return len(text) == 64 && strings.Trim(text, "0123456789abcdefABCDEF") == ""
}
