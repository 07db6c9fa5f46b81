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

// sourceFunc is a source that calls a function.
type sourceFunc func() string

func (f sourceFunc) Get(context.Context) (secrets.Secret, error) { return secrets.New(f()), nil }

func TestTwoPlacesOfOneSecret(t *testing.T) {
	r := request(t, "https://api.example.com/", "Private-Token: "+thePlaceholder)
	apply(t, bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "Private-Token"},
		forage.SecretUse{Place: forage.PlaceBasic, User: "oauth2"}), r)
	header, _ := sent(r)
	want := http.Header{"Private-Token": {theValue}, "Authorization": {basic("oauth2", theValue)}}
	if diff := cmp.Diff(want, header); diff != "" {
		t.Errorf("header (-want +got):\n%s", diff)
	}
}

func TestForFindsTheMostSpecificHost(t *testing.T) {
	use := func(hosts ...string) []forage.SecretUse {
		return []forage.SecretUse{{Hosts: hosts, Place: forage.PlaceBearer}}
	}
	set, err := Compile([]forage.Binding{
		{Secret: "exact", Uses: use("a.example.com", "10.0.0.7:8443", "[2001:db8::1]:8443")},
		{Secret: "long", Uses: use("*.b.example.com")},
		{Secret: "short", Uses: use("*.example.com", "*.Other.example.:8443")},
		{Secret: "port", Uses: use("a.example.com:8443")},
	}, map[string]secrets.Source{"exact": fixed("x"), "long": fixed("x"), "short": fixed("x"), "port": fixed("x")})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		host string
		port uint16
		want string
	}{
		{"a.example.com", 443, "exact"},
		{"a.example.com", 8443, "port"},
		{"a.example.com", 80, ""},
		{"x.a.example.com", 443, "short"},
		{"b.example.com", 443, "short"},
		{"x.b.example.com", 443, "long"},
		{"y.x.b.example.com", 443, "long"},
		{"example.com", 443, ""},
		{"notexample.com", 443, ""},
		{"x.other.example", 8443, "short"},
		{"10.0.0.7", 8443, "exact"},
		{"2001:db8::1", 8443, "exact"},
		{"", 443, ""},
	} {
		got := ""
		if c := set.For(test.host, test.port); c != nil {
			got = c.Secret
		}
		if got != test.want {
			t.Errorf("%s:%d has the secret %q, want %q", test.host, test.port, got, test.want)
		}
	}
}

func TestGateway(t *testing.T) {
	set := bind(t, fixed(theValue), forage.SecretUse{Hosts: []string{"api.example.com:8443", "b.example.com"}, Place: forage.PlaceBearer, Gateway: "example"})
	if host, port, ok := set.Gateway("example"); host != theHost || port != 8443 || !ok {
		t.Errorf("the gateway leads to %s:%d, %t", host, port, ok)
	}
	if _, _, ok := set.Gateway("other"); ok {
		t.Error("there is a gateway that nobody has named")
	}
}

func TestCompileRefuses(t *testing.T) {
	bearer := func(hosts ...string) forage.SecretUse {
		return forage.SecretUse{Hosts: hosts, Place: forage.PlaceBearer}
	}
	for _, test := range []struct {
		name, want string
		uses       [][]forage.SecretUse
	}{
		{"two secrets for a host", "is a host of the secret", [][]forage.SecretUse{{bearer("a.example")}, {bearer("A.example.:443")}}},
		{"two secrets for a suffix", "is a host of the secret", [][]forage.SecretUse{{bearer("*.a.example")}, {bearer("*.a.example")}}},
		{"no host", "no hosts", [][]forage.SecretUse{{bearer()}}},
		{"a host that is none", "not a host name", [][]forage.SecretUse{{bearer("a b")}}},
		{"everything", "not a host name", [][]forage.SecretUse{{bearer("*")}}},
		{"below an address", "nothing below it", [][]forage.SecretUse{{bearer("*.10.0.0.1")}}},
		{"a bad port", "port", [][]forage.SecretUse{{bearer("a.example:0")}}},
		{"no place", "is no place", [][]forage.SecretUse{{{Hosts: []string{"a.example"}}}}},
		{"header without a name", "expected a name", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceHeader}}}},
		{"header that breaks lines", "expected a name", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceHeader, Name: "A\r\nB"}}}},
		{"header that frames", "can't carry a secret", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceHeader, Name: "accept_encoding"}}}},
		{"format without a place", "once", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceHeader, Name: "A", Format: "x"}}}},
		{"format that breaks lines", "once", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceHeader, Name: "A", Format: "{}\r\n"}}}},
		{"user with a colon", "no colon", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceBasic, User: "a:b"}}}},
		{"query without a name", "name of a query parameter", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceQuery}}}},
		{"one header twice", "the same place", [][]forage.SecretUse{{bearer("a.example"), {Hosts: []string{"a.example"}, Place: forage.PlaceBasic}}}},
		{"one query twice", "the same place", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceQuery, Name: "a_b"},
			{Hosts: []string{"a.example"}, Place: forage.PlaceQuery, Name: "A-B"}}}},
		{"signed and more", "the same place", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceSigV4},
			{Hosts: []string{"a.example"}, Place: forage.PlaceQuery, Name: "a"}}}},
		{"a gateway to many", "many hosts", [][]forage.SecretUse{{{Hosts: []string{"*.a.example"}, Place: forage.PlaceBearer, Gateway: "a"}}}},
		{"a gateway twice", "is taken", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceBearer, Gateway: "a"}},
			{{Hosts: []string{"b.example"}, Place: forage.PlaceBearer, Gateway: "a"}}}},
		{"a gateway that is a path", "lower-case", [][]forage.SecretUse{{{Hosts: []string{"a.example"}, Place: forage.PlaceBearer, Gateway: "a/.."}}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var bindings []forage.Binding
			sources := map[string]secrets.Source{}
			for i, uses := range test.uses {
				name := string(rune('a' + i))
				bindings = append(bindings, forage.Binding{Secret: name, Placeholder: thePlaceholder, Uses: uses})
				sources[name] = fixed("x")
			}
			if _, err := Compile(bindings, sources); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
	replace := []forage.SecretUse{{Hosts: []string{"a.example"}, Place: forage.PlaceReplace, Name: "A"}}
	for want, bindings := range map[string][]forage.Binding{
		"no source":         {{Secret: "other", Uses: replace}},
		"at least 8":        {{Secret: "a", Placeholder: "short", Uses: replace}},
		"it is bound twice": {{Secret: "a", Placeholder: thePlaceholder}, {Secret: "a"}},
	} {
		if _, err := Compile(bindings, map[string]secrets.Source{"a": fixed("x")}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want an error with %q", err, want)
		}
	}
}
