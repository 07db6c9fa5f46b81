package credential

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"testing"

	"forage"
	"forage/internal/secrets"

	"github.com/google/go-cmp/cmp"
)

const (
	theValue       = "sk-ant-api03-9hJ3nQx7Zr0LmB2vT5yWcK8d"
	thePlaceholder = "sk-ant-api03-PLACEHOLDERPLACEHOLDERPL"
	theHost        = "api.example.com"
)

// fixed is a source that gives one value.
type fixed string

func (f fixed) Get(context.Context) (secrets.Secret, error) { return secrets.New(string(f)), nil }

// broken is a source that fails.
type broken struct{}

func (broken) Get(context.Context) (secrets.Secret, error) {
	return secrets.Secret{}, errors.New("the keyring is locked")
}

// bind makes the credential of theHost for uses, which get it as their host if they have none.
func bind(t testing.TB, source secrets.Source, uses ...forage.SecretUse) *Set {
	t.Helper()
	for i := range uses {
		if uses[i].Hosts == nil {
			uses[i].Hosts = []string{theHost}
		}
	}
	set, err := Compile([]forage.Binding{{Secret: "work", Placeholder: thePlaceholder, Uses: uses}},
		map[string]secrets.Source{"work": source})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// request is a request as it is about to be sent on. Each header is "Name: value".
func request(t testing.TB, url string, headers ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range headers {
		name, value, _ := strings.Cut(line, ": ")
		r.Header[name] = append(r.Header[name], value)
	}
	return r
}

// apply applies the credential of theHost to r.
func apply(t testing.TB, set *Set, r *http.Request) *Applied {
	t.Helper()
	applied, answer, err := set.For(theHost, 443).Apply(t.Context(), r)
	if err != nil || answer != nil {
		t.Fatalf("applying: %v, answer %v", err, answer)
	}
	return applied
}

func basic(user, password string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// sent is what of a request could carry a credential.
func sent(r *http.Request) (http.Header, string) {
	h := r.Header.Clone()
	h.Del("Accept-Encoding")
	return h, r.URL.RawQuery
}

func TestApplyPutsTheSecretInItsPlace(t *testing.T) {
	for _, test := range []struct {
		name   string
		use    forage.SecretUse
		query  string
		brings []string
		header http.Header
		want   string // the query
	}{
		{"header", forage.SecretUse{Place: forage.PlaceHeader, Name: "x-api-key"}, "", nil, http.Header{"X-Api-Key": {theValue}}, ""},
		{"header with a format", forage.SecretUse{Place: forage.PlaceHeader, Name: "Authorization", Format: "token {}"}, "", nil,
			http.Header{"Authorization": {"token " + theValue}}, ""},
		{"header over the placeholder", forage.SecretUse{Place: forage.PlaceHeader, Name: "x-api-key"}, "", []string{"X-Api-Key: " + thePlaceholder},
			http.Header{"X-Api-Key": {theValue}}, ""},
		{"bearer", forage.SecretUse{Place: forage.PlaceBearer}, "", nil, http.Header{"Authorization": {"Bearer " + theValue}}, ""},
		{"basic", forage.SecretUse{Place: forage.PlaceBasic, User: "me"}, "", nil, http.Header{"Authorization": {basic("me", theValue)}}, ""},
		{"query", forage.SecretUse{Place: forage.PlaceQuery, Name: "key"}, "a=1", nil, http.Header{}, "a=1&key=" + theValue},
		{"query over the placeholder", forage.SecretUse{Place: forage.PlaceQuery, Name: "key"}, "key=" + thePlaceholder + "&a=1", nil, http.Header{}, "a=1&key=" + theValue},
		{"placeholder in a bearer", forage.SecretUse{Place: forage.PlaceReplace, Name: "Authorization"}, "",
			[]string{"Authorization: Bearer " + thePlaceholder}, http.Header{"Authorization": {"Bearer " + theValue}}, ""},
		{"placeholder in a password", forage.SecretUse{Place: forage.PlaceReplace, Name: "Authorization"}, "",
			[]string{"Authorization: " + basic("me", thePlaceholder)}, http.Header{"Authorization": {basic("me", theValue)}}, ""},
		{"placeholder within a header", forage.SecretUse{Place: forage.PlaceReplace, Name: "X-Login"}, "",
			[]string{"X-Login: a=" + thePlaceholder + ";b"}, http.Header{"X-Login": {"a=" + theValue + ";b"}}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(t, "https://api.example.com/v1?"+test.query, append(test.brings, "Anthropic-Beta: oauth")...)
			applied := apply(t, bind(t, fixed(theValue), test.use), r)
			header, query := sent(r)
			test.header.Set("Anthropic-Beta", "oauth")
			if diff := cmp.Diff(test.header, header); diff != "" {
				t.Errorf("header (-want +got):\n%s", diff)
			}
			if query != test.want {
				t.Errorf("the query is %q, want %q", query, test.want)
			}
			if applied.Secret != "work" || applied.Foreign != "" {
				t.Errorf("applied %q, foreign %q; want work and nothing", applied.Secret, applied.Foreign)
			}
		})
	}
}
