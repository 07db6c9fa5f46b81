package credential

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"forage"
)

// AWS Signature Version 4 (docs.aws.amazon.com, "Signature Version 4 for API requests").
const (
	algorithm     = "AWS4-HMAC-SHA256"
	unsigned      = "UNSIGNED-PAYLOAD"
	unsignedTrail = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
	longTime      = "20060102T150405Z"
	shortTime     = "20060102"
)

// scope is what a signature is valid for, beside its date.
type scope struct{ region, service string }

// isS3 says whether paths are signed as they are, and bodies need not be signed.
func (s scope) isS3() bool {
	switch s.service {
	case "s3", "s3express", "s3-outposts", "s3-object-lambda":
		return true
	}
	return false
}

// readScope finds out for what r has been signed inside: in its Authorization, or in its
// query if it is presigned. refused says, for the agent, why it can't be signed again.
func readScope(r *http.Request) (sc scope, refused string) {
	said := strings.Join(r.Header["Authorization"], ",")
	credential := ""
	switch {
	case said != "":
		kind, rest, _ := strings.Cut(said, " ")
		if kind != algorithm || len(r.Header["Authorization"]) != 1 {
			return scope{}, "requests to this host have to be signed with " + algorithm + ", and once"
		}
		for field := range strings.SplitSeq(rest, ",") {
			if value, ok := strings.CutPrefix(strings.TrimSpace(field), "Credential="); ok && credential == "" {
				credential = value
			}
		}
	case queryValue(r, "X-Amz-Algorithm") == algorithm:
		credential = queryValue(r, "X-Amz-Credential")
	default:
		return scope{}, "requests to this host have to be signed (AWS Signature Version 4): give the client the key that the environment has"
	}
	parts := strings.Split(credential, "/") // the key's name may hold slashes, in theory
	if n := len(parts); n >= 5 && parts[n-1] == "aws4_request" && isDate(parts[n-4]) && isScopeName(parts[n-3]) && isScopeName(parts[n-2]) {
		return scope{region: parts[n-3], service: parts[n-2]}, ""
	}
	return scope{}, "the signature of the request names no date, region and service"
}

func isDate(text string) bool { return len(text) == 8 && strings.Trim(text, "0123456789") == "" }

func isScopeName(text string) bool {
	return text != "" && len(text) <= 64 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// queryValue is the one value of a query parameter; "" if there is none or several.
func queryValue(r *http.Request, name string) (value string) {
	for param := range strings.SplitSeq(r.URL.RawQuery, "&") {
		if key, text, _ := strings.Cut(param, "="); unescape(key) == name {
			if value != "" {
				return ""
			}
			value = unescape(text)
		}
	}
	return value
}

// foreignSigner says whether r is signed, or presigned, with a key that is not the placeholder.
func (c *Credential) foreignSigner(r *http.Request) string {
	id, _, _ := strings.Cut(c.placeholder, ":")
	for _, said := range r.Header["Authorization"] {
		if !strings.Contains(said, "Credential="+id+"/") || id == "" {
			return "header authorization"
		}
	}
	if by := queryValue(r, "X-Amz-Credential"); by != "" && (id == "" || !strings.HasPrefix(by, id+"/")) {
		return "query x-amz-credential"
	}
	return ""
}

// sign signs r again, with the key of the host. What the client signed it with has been
// taken out. refused says why it can't be, for the agent.
func (s *signer) sign(r *http.Request, sc scope, now time.Time) (refused string) {
	now = now.UTC()
	hash, refused := payloadHash(r, sc)
	if refused != "" {
		return refused
	}
	r.Header["X-Amz-Date"] = []string{now.Format(longTime)}
	delete(r.Header, "Date")
	if s.session != "" {
		r.Header["X-Amz-Security-Token"] = []string{s.session}
	}
	if sc.isS3() {
		r.Header["X-Amz-Content-Sha256"] = []string{hash}
	}
	query := canonicalQuery(r.URL.RawQuery)
	r.URL.RawQuery = query // what is sent is what is signed, byte for byte
	names, headers := canonicalHeaders(r)
	request := strings.Join([]string{r.Method, canonicalPath(r.URL.EscapedPath(), sc), query, headers, names, hash}, "\n")
	day := now.Format(shortTime)
	where := day + "/" + sc.region + "/" + sc.service + "/aws4_request"
	digest := sha256.Sum256([]byte(request))
	text := strings.Join([]string{algorithm, now.Format(longTime), where, hex.EncodeToString(digest[:])}, "\n")
	key := []byte("AWS4" + s.secret)
	for _, part := range [...]string{day, sc.region, sc.service, "aws4_request", text} {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(part))
		key = mac.Sum(nil)
	}
	r.Header["Authorization"] = []string{algorithm + " Credential=" + s.id + "/" + where +
		", SignedHeaders=" + names + ", Signature=" + hex.EncodeToString(key)}
	return ""
}

// canonicalPath is the path as it is signed: for S3 as it is sent, for all others
// cleaned and encoded once more.
func canonicalPath(path string, sc scope) string {
	if path == "" {
		return "/"
	}
	if sc.isS3() {
		return path
	}
	var kept []string
	for part := range strings.SplitSeq(path, "/") {
		switch part {
		case "", ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, part)
		}
	}
	clean := "/" + strings.Join(kept, "/")
	if len(kept) > 0 && (strings.HasSuffix(path, "/") || strings.HasSuffix(path, "/.") || strings.HasSuffix(path, "/..")) {
		clean += "/"
	}
	return awsEncode(clean, "/")
}

// canonicalQuery is a query, decoded, encoded in AWS's way and sorted.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	var params [][2]string
	for param := range strings.SplitSeq(raw, "&") {
		if param != "" {
			key, value, _ := strings.Cut(param, "=")
			params = append(params, [2]string{awsEncode(unescape(key), ""), awsEncode(unescape(value), "")})
		}
	}
	slices.SortFunc(params, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	out := make([]string, len(params))
	for i, p := range params {
		out[i] = p[0] + "=" + p[1]
	}
	return strings.Join(out, "&")
}

// canonicalHeaders are the headers that are signed: those that are not changed on the way
// and that mean something to the service.
func canonicalHeaders(r *http.Request) (names, lines string) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	r.Host = strings.TrimSuffix(strings.ToLower(host), ":443") // what is sent is what is signed
	signed := map[string]string{"host": r.Host}
	for name, values := range r.Header {
		lower := strings.ToLower(name)
		if lower != "content-type" && lower != "content-md5" && !strings.HasPrefix(lower, "x-amz-") {
			continue
		}
		clean := make([]string, len(values))
		for i, value := range values {
			clean[i] = strings.Join(strings.Fields(value), " ")
		}
		signed[lower] = strings.Join(clean, ",")
	}
	var list []string
	for name := range signed {
		list = append(list, name)
	}
	slices.Sort(list)
	var b strings.Builder
	for _, name := range list {
		b.WriteString(name + ":" + signed[name] + "\n")
	}
	return strings.Join(list, ";"), b.String()
}

// awsEncode is RFC 3986's percent-encoding of all but unreserved characters and those in keep.
func awsEncode(text, keep string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-_.~"+keep, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', digits[c>>4], digits[c&15]})
	}
	return b.String()
}

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
