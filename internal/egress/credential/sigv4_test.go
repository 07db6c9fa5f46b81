package credential

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/secrets"

	"github.com/google/go-cmp/cmp"
)

const (
	awsKey         = "AKIDEXAMPLE:wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	awsPlaceholder = "AKIAPLACEHOLDERPLACE:0123456789012345678901234567890123456789"
)

// vector is a request and how it is signed. They were made with botocore 1.44.5; those
// whose service is "service" are of AWS's own test suite, at its time and with its key.
type vector struct {
	Name, Method, URL, Service, Region, Body, Token, Authorization, SHA string
	Headers                                                             map[string]string
}

var vectorTime = time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)

// bindAWS makes the credential of *.amazonaws.com, at the time of the vectors.
func bindAWS(t testing.TB, value, host string) *Credential {
	t.Helper()
	set, err := Compile([]forage.Binding{{Secret: "aws", Placeholder: awsPlaceholder,
		Uses: []forage.SecretUse{{Hosts: []string{"*.amazonaws.com"}, Place: forage.PlaceSigV4}}}},
		map[string]secrets.Source{"aws": fixed(value)})
	if err != nil {
		t.Fatal(err)
	}
	c := set.For(host, 443)
	if c == nil {
		t.Fatalf("nothing is bound to %s", host)
	}
	c.now = func() time.Time { return vectorTime }
	return c
}

// signedInside is the Authorization of a client inside, whose signature is worth nothing.
func signedInside(region, service string) string {
	return "AWS4-HMAC-SHA256 Credential=AKIAPLACEHOLDERPLACE/20260101/" + region + "/" + service +
		"/aws4_request, SignedHeaders=host;x-amz-date, Signature=" + strings.Repeat("0", 64)
}

func TestSignatureVersion4(t *testing.T) {
	text, err := os.ReadFile("testdata/sigv4.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) < 20 {
		t.Fatalf("%d vectors: %v", len(vectors), err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			r, err := http.NewRequest(v.Method, v.URL, strings.NewReader(v.Body))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range v.Headers {
				r.Header.Set(name, value)
			}
			if v.Service == "s3" {
				r.Header.Set("X-Amz-Content-Sha256", v.SHA)
			}
			r.Header.Set("Authorization", signedInside(v.Region, v.Service))
			r.Header.Set("X-Amz-Date", "20260101T000000Z")
			value := awsKey
			if v.Token != "" {
				value += ":" + v.Token
			}
			applied, answer, err := bindAWS(t, value, r.URL.Host).Apply(t.Context(), r)
			if err != nil || answer != nil {
				t.Fatalf("applying: %v, answer %v", err, answer)
			}
			if diff := cmp.Diff([]string{v.Authorization}, r.Header["Authorization"]); diff != "" {
				t.Errorf("signature (-want +got):\n%s", diff)
			}
			if applied.Foreign != "" || applied.Secret != "aws" {
				t.Errorf("applied %q, foreign %q; want aws and nothing", applied.Secret, applied.Foreign)
			}
			if body, err := io.ReadAll(r.Body); err != nil || string(body) != v.Body {
				t.Errorf("the body is %q (%v), want %q", body, err, v.Body)
			}
		})
	}
}

func TestPresignedRequestsAreSignedInTheHeader(t *testing.T) {
	r := request(t, "https://bucket.s3.amazonaws.com/k?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAPLACEHOLDERPLACE%2F20260101%2Fus-east-1%2Fs3%2Faws4_request"+
		"&X-Amz-Date=20260101T000000Z&X-Amz-Expires=300&X-Amz-SignedHeaders=host&X-Amz-Signature=00&versionId=a+b")
	applied, answer, err := bindAWS(t, awsKey, r.URL.Host).Apply(t.Context(), r)
	if err != nil || answer != nil {
		t.Fatalf("applying: %v, answer %v", err, answer)
	}
	if r.URL.RawQuery != "versionId=a%20b" {
		t.Errorf("the query is %q, want what is not of the signature", r.URL.RawQuery)
	}
	if got := r.Header.Get("Authorization"); !strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/s3/") {
		t.Errorf("Authorization is %q", got)
	}
	if applied.Foreign != "" {
		t.Errorf("a request that is presigned with the placeholder counts as %q", applied.Foreign)
	}
}

// The port that goes without saying is not in what is signed, and not in what is sent.
func TestTheHostIsSentAsItIsSigned(t *testing.T) {
	sign := func(host string) *http.Request {
		r := request(t, "https://sts.amazonaws.com:443/", "Authorization: "+signedInside("us-east-1", "sts"))
		r.Host = host
		if _, answer, err := bindAWS(t, awsKey, "sts.amazonaws.com").Apply(t.Context(), r); err != nil || answer != nil {
			t.Fatalf("applying: %v, answer %v", err, answer)
		}
		return r
	}
	want := sign("sts.amazonaws.com")
	for _, host := range []string{"sts.amazonaws.com:443", "STS.amazonaws.com", ""} {
		if got := sign(host); got.Host != want.Host || got.Header.Get("Authorization") != want.Header.Get("Authorization") {
			t.Errorf("%q is sent as %q, signed %q", host, got.Host, got.Header.Get("Authorization"))
		}
	}
}

func TestWhatCannotBeSignedIsRefused(t *testing.T) {
	good := "Authorization: " + signedInside("us-east-1", "s3")
	for _, test := range []struct {
		name, url, want string
		headers         []string
	}{
		{"not signed", "/", "have to be signed", nil},
		{"bearer", "/", "have to be signed", []string{"Authorization: Bearer x"}},
		{"asymmetric", "/", "have to be signed", []string{"Authorization: AWS4-ECDSA-P256-SHA256 Credential=a/20260101/s3/aws4_request, Signature=0"}},
		{"twice", "/", "and once", []string{good, good}},
		{"no scope", "/", "no date, region and service", []string{"Authorization: AWS4-HMAC-SHA256 Credential=AKIA, Signature=0"}},
		{"scope that breaks lines", "/", "no date, region and service", []string{"Authorization: AWS4-HMAC-SHA256 Credential=A/20260101/us\neast/s3/aws4_request"}},
		{"signed chunks", "/", "chunks are signed", []string{good, "X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD"}},
		{"signed chunks and trailer", "/", "chunks are signed", []string{good, "X-Amz-Content-Sha256: STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"}},
		{"two hashes", "/", "more than one", []string{good, "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD", "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD"}},
		{"no hash", "/", "is no hash", []string{good, "X-Amz-Content-Sha256: x"}},
		{"presigned twice", "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=A/20260101/r/s3/aws4_request&X-Amz-Credential=B/20260101/r/s3/aws4_request",
			"no date, region and service", nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(t, "https://s3.amazonaws.com"+test.url, test.headers...)
			applied, answer, err := bindAWS(t, awsKey, r.URL.Host).Apply(t.Context(), r)
			if err != nil || answer == nil {
				t.Fatalf("applying: %v, answer %v", err, answer)
			}
			text, _ := io.ReadAll(answer.Body)
			if answer.StatusCode != http.StatusForbidden || !strings.HasPrefix(string(text), "forage: ") || !strings.Contains(string(text), test.want) {
				t.Errorf("answered %d %q, want 403 with %q", answer.StatusCode, text, test.want)
			}
			if applied.Secret != "" || r.Header.Get("Authorization") != "" {
				t.Errorf("a refused request is left with %q", r.Header)
			}
		})
	}
}

func TestABodyThatIsTooLongToSignIsRefused(t *testing.T) {
	r := request(t, "https://sqs.amazonaws.com/", "Authorization: "+signedInside("us-east-1", "sqs"))
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(zeros{}, bodyMax+1)), -1
	_, answer, err := bindAWS(t, awsKey, r.URL.Host).Apply(t.Context(), r)
	if err != nil || answer == nil {
		t.Fatalf("applying: %v, answer %v", err, answer)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestForeignKeysOfAWS(t *testing.T) {
	for _, test := range []struct{ name, url, header, want string }{
		{"signed", "/", strings.Replace(signedInside("us-east-1", "s3"), "AKIAPLACEHOLDERPLACE", "AKIAATTACKERATTACKER", 1), "header authorization"},
		{"presigned", "/?X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=AKIAATTACKERATTACKER/20260101/us-east-1/s3/aws4_request", "", "query x-amz-credential"},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(t, "https://s3.amazonaws.com"+test.url)
			if test.header != "" {
				r.Header.Set("Authorization", test.header)
			}
			r.Header.Set("X-Amz-Security-Token", "attacker's")
			applied, answer, err := bindAWS(t, awsKey, r.URL.Host).Apply(t.Context(), r)
			if err != nil || answer != nil {
				t.Fatalf("applying: %v, answer %v", err, answer)
			}
			all, _ := json.Marshal([]any{r.Header, r.URL.String()})
			if applied.Foreign != test.want || strings.Contains(strings.ToLower(string(all)), "attacker") {
				t.Errorf("foreign is %q, want %q; sent: %s", applied.Foreign, test.want, all)
			}
		})
	}
}

func TestAWSKeys(t *testing.T) {
	for _, test := range []struct {
		value string
		want  signer
	}{
		{"A:b", signer{id: "A", secret: "b"}},
		{"A:b:c:d", signer{id: "A", secret: "b", session: "c:d"}},
		{`{"Version":1,"AccessKeyId":"A","SecretAccessKey":"b","SessionToken":"c","Expiration":"2015-08-30T12:00:00Z"}`,
			signer{id: "A", secret: "b", session: "c", expires: vectorTime.Add(-36 * time.Minute)}},
	} {
		got, err := newSigner(test.value)
		if err != nil || *got != test.want {
			t.Errorf("%s: %+v, %v; want %+v", test.value, got, err, test.want)
		}
	}
	for _, value := range []string{"", "A", "A:", ":b", "A/x:b", "{", `{"AccessKeyId":"A"}`, `{"AccessKeyId":"A","SecretAccessKey":"b","SessionToken":"c\nd"}`} {
		if _, err := newSigner(value); err == nil || forage.Hint(err) == "" {
			t.Errorf("%q is a key; error %v", value, err)
		}
	}
}

func TestAnExpiredKeyIsAnError(t *testing.T) {
	c := bindAWS(t, `{"AccessKeyId":"A","SecretAccessKey":"topsecret","Expiration":"2015-08-30T12:00:00Z"}`, "s3.amazonaws.com")
	_, _, err := c.Apply(t.Context(), request(t, "https://s3.amazonaws.com/", "Authorization: "+signedInside("us-east-1", "s3")))
	if err == nil || !strings.Contains(err.Error(), "expired") || strings.Contains(err.Error(), "topsecret") {
		t.Errorf("an expired key: %v", err)
	}
}

func FuzzSign(f *testing.F) {
	f.Add(signedInside("us-east-1", "s3"), "/a//b/../c%2f", "X-Amz-Credential=a%2Fb&z=%&a=+", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")
	f.Add("AWS4-HMAC-SHA256 Credential=////aws4_request", "/", "", "")
	c := bindAWS(f, awsKey, "s3.amazonaws.com")
	f.Fuzz(func(t *testing.T, authorization, path, query, hash string) {
		r := request(t, "https://s3.amazonaws.com/")
		r.URL.Path, r.URL.RawQuery = path, query
		r.Header["Authorization"] = []string{authorization}
		if hash != "" {
			r.Header["X-Amz-Content-Sha256"] = []string{hash}
		}
		_, answer, err := c.Apply(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		got := r.Header.Get("Authorization")
		if signed := strings.HasPrefix(got, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/"); signed != (answer == nil) || hasControl(got) || strings.Contains(got, "wJalrX") {
			t.Fatalf("answer %v, Authorization %q", answer, got)
		}
	})
}
