package credential

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"forage"
	"forage/internal/policy"
	"forage/internal/secrets"

	"github.com/google/go-cmp/cmp"
)

// The attacker brings an account of its own to a host that it may speak to.
const theirs = "attackers-own-credential"

func TestCredentialsThatAnAgentBringsAreTakenOut(t *testing.T) {
	for _, test := range []struct {
		name, query string
		headers     []string
		foreign     string
	}{
		{"bearer", "", []string{"Authorization: Bearer " + theirs}, "header authorization"},
		{"basic", "", []string{"Authorization: " + basic("x", theirs)}, "header authorization"},
		{"twice", "", []string{"Authorization: Bearer " + thePlaceholder, "Authorization: Bearer " + theirs}, "header authorization"},
		{"behind a comma", "", []string{"Authorization: Bearer " + theirs + ", Bearer " + theirs}, "header authorization"},
		{"beside the placeholder", "", []string{"X-Api-Key: " + theirs + ", " + thePlaceholder}, ""},
		{"case", "", []string{"aUTHORIZATION: Bearer " + theirs}, "header authorization"},
		{"underscore", "", []string{"X_Api_Key: " + theirs}, "header x_api_key"},
		{"underscore and dash", "", []string{"X-Api_key: " + theirs}, "header x-api_key"},
		{"dots", "", []string{"X.Api.Key: " + theirs}, "header x.api.key"},
		{"api-key", "", []string{"Api-Key: " + theirs}, "header api-key"},
		{"google", "", []string{"X-Goog-Api-Key: " + theirs}, "header x-goog-api-key"},
		{"gitlab", "", []string{"Private-Token: " + theirs}, "header private-token"},
		{"gitlab job", "", []string{"Job-Token: " + theirs}, "header job-token"},
		{"x-auth-token", "", []string{"X-Auth-Token: " + theirs}, "header x-auth-token"},
		{"proxy", "", []string{"Proxy-Authorization: Bearer " + theirs}, "header proxy-authorization"},
		{"cookie", "", []string{"Cookie: session=" + theirs}, "header cookie"},
		{"aws session", "", []string{"X-Amz-Security-Token: " + theirs}, "header x-amz-security-token"},
		{"subprotocol", "", []string{"Sec-Websocket-Protocol: realtime, openai-insecure-api-key." + theirs}, "header sec-websocket-protocol"},
		{"subprotocol, case", "", []string{"Sec-WebSocket-Protocol: realtime,OpenAI-Insecure-API-Key." + theirs}, "header sec-websocket-protocol"},
		{"query", "access_token=" + theirs, nil, "query access_token"},
		{"query, percent", "a%63cess_%74oken=" + theirs, nil, "query access_token"},
		{"query, case", "Access_Token=" + theirs, nil, "query access_token"},
		{"query, dot", "access.token=" + theirs, nil, "query access.token"},
		{"query, space", "access+token=" + theirs, nil, "query access token"},
		{"query, bracket", "access_token[]=" + theirs, nil, "query access_token"},
		{"query, encoded bracket", "access_token%5B0%5D=" + theirs, nil, "query access_token"},
		{"query, nul", "access_token%00x=" + theirs, nil, "query access_token"},
		{"query, semicolon", "a=1;access_token=" + theirs + ";b=2", nil, "query access_token"},
		{"query, after others", "a=1&&b=2&key=" + theirs, nil, "query key"},
		{"query, twice", "key=" + thePlaceholder + "&key=" + theirs, nil, "query key"},
		{"query, api_key", "api_key=" + theirs, nil, "query api_key"},
		{"query, private_token", "private_token=" + theirs, nil, "query private_token"},
		{"query, $key", "%24key=" + theirs, nil, "query $key"},
		{"query, headers in it", "$httpHeaders=Authorization:Bearer%20" + theirs, nil, "query $httpheaders"},
		{"query, presigned", "X-Amz-Signature=" + theirs + "&x-amz-credential=" + theirs, nil, "query x-amz-credential"},
		{"query, broken escape", "key=%zz" + theirs, nil, "query key"},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "X-Api-Key"})
			r := request(t, "https://api.example.com/v1?"+test.query, append(test.headers, "X-Kept: 1")...)
			applied := apply(t, set, r)
			if all := everything(t, r); strings.Contains(all, theirs) || strings.Contains(all, base64.StdEncoding.EncodeToString([]byte("x:"+theirs))) {
				t.Errorf("sent with the attacker's credential:\n%s", all)
			}
			if applied.Foreign != test.foreign {
				t.Errorf("foreign is %q, want %q", applied.Foreign, test.foreign)
			}
			if got := r.Header["X-Api-Key"]; len(got) != 1 || got[0] != theValue || r.Header.Get("X-Kept") != "1" {
				t.Errorf("sent with %q", r.Header)
			}
		})
	}
}

// everything is r as it goes over the wire.
func everything(t testing.TB, r *http.Request) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// FuzzQuery reads what is left of a query as strict and as lenient servers do.
func FuzzQuery(f *testing.F) {
	for _, query := range []string{"a=1&key=2", "a;b=1;access_token=x", "a%63cess_token=x", "%2561ccess_token=x", "api_key[]=1&&=;", "private%5ftoken", "k%65y%00=1"} {
		f.Add(query)
	}
	set := bind(f, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "X-Api-Key"})
	f.Fuzz(func(t *testing.T, query string) {
		r := request(t, "https://api.example.com/")
		r.URL.RawQuery = query
		apply(t, set, r)
		for _, text := range []string{r.URL.RawQuery, strings.ReplaceAll(r.URL.RawQuery, ";", "&")} {
			params, _ := url.ParseQuery(text)
			for name := range params {
				switch strings.ToLower(strings.Trim(name, " ")) {
				case "access_token", "api_key", "key", "private_token", "x-amz-signature":
					t.Fatalf("%q became %q, which has %q", query, r.URL.RawQuery, name)
				}
			}
		}
		if len(r.URL.RawQuery) > len(query) {
			t.Fatalf("%q became %q", query, r.URL.RawQuery)
		}
	})
}

func TestWhatIsNoCredentialIsKept(t *testing.T) {
	const query = "a=1&keys=2&monkey=3&b=%20&access_tokens=4;c"
	headers := []string{"Anthropic-Beta: oauth", "Authorizations: x", "X-Api-Keys: x", "Sec-Websocket-Protocol: realtime", "User-Agent: x"}
	r := request(t, "https://api.example.com/v1?"+query, headers...)
	want := r.Header.Clone()
	applied := apply(t, bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "X-Api-Key"}), r)
	want.Set("X-Api-Key", theValue)
	header, got := sent(r)
	if diff := cmp.Diff(want, header); diff != "" || got != query || applied.Foreign != "" {
		t.Errorf("query %q, foreign %q, header (-want +got):\n%s", got, applied.Foreign, diff)
	}
}

func TestTheKeyOfACacheIsNoCredential(t *testing.T) {
	set, err := Compile([]forage.Binding{{Secret: "github", Uses: []forage.SecretUse{{Hosts: []string{"api.github.com"}, Place: forage.PlaceBearer}}}},
		map[string]secrets.Source{"github": fixed(theValue)})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "https://api.github.com/repos/a/b/actions/caches?key=linux&access_token="+theirs)
	applied, _, err := set.For("api.github.com", 443).Apply(t.Context(), r)
	if err != nil || r.URL.RawQuery != "key=linux" || applied.Foreign != "query access_token" {
		t.Errorf("query %q, foreign %+v, %v", r.URL.RawQuery, applied, err)
	}
}

func TestUserInformationIsNoWayIn(t *testing.T) {
	r := request(t, "https://api.example.com/")
	r.URL.User = url.UserPassword("x", theirs)
	applied := apply(t, bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "X-Api-Key"}), r)
	if r.URL.User != nil || applied.Foreign != "user information" {
		t.Errorf("sent to %s, foreign %q", r.URL, applied.Foreign)
	}
}

func TestTrailersAreNoWayIn(t *testing.T) {
	r := request(t, "https://api.example.com/")
	r.Trailer = http.Header{"Authorization": nil, "X-Sum": nil}
	r.Body = &trailed{io.NopCloser(strings.NewReader("body")), func() {
		r.Trailer["Authorization"], r.Trailer["X-Api-Key"], r.Trailer["X-Sum"] = []string{theirs}, []string{theirs}, []string{"1"}
	}}
	apply(t, bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceHeader, Name: "X-Api-Key"}), r)
	if _, announced := r.Trailer["Authorization"]; announced {
		t.Error("a trailer Authorization is announced")
	}
	if _, err := io.ReadAll(r.Body); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(http.Header{"X-Sum": {"1"}}, r.Trailer); diff != "" {
		t.Errorf("trailer (-want +got):\n%s", diff)
	}
}

// Wherever an agent puts the placeholder, the value comes to one place alone.
func TestThePlaceholderIsReplacedInItsPlaceOnly(t *testing.T) {
	replace := forage.SecretUse{Place: forage.PlaceReplace, Name: "Authorization"}
	for _, test := range []struct {
		name, path string
		headers    []string
		secret     string // as Applied tells it
	}{
		{"other header", "/", []string{"X-Other: " + thePlaceholder}, ""},
		{"other credential header", "/", []string{"X-Api-Key: " + thePlaceholder}, ""},
		{"cookie", "/", []string{"Cookie: a=" + thePlaceholder}, ""},
		{"query", "/?a=" + thePlaceholder, nil, ""},
		{"path", "/" + thePlaceholder, nil, ""},
		{"user agent, beside its place", "/", []string{"Authorization: Bearer " + thePlaceholder, "User-Agent: " + thePlaceholder}, "work"},
		{"beside another", "/", []string{"Authorization: Bearer " + theirs + ", Bearer " + thePlaceholder}, ""},
		{"another spelling of its place", "/", []string{"Author_ization: Bearer " + thePlaceholder}, ""},
		{"in two schemes", "/", []string{"Authorization: Bearer " + thePlaceholder + " " + thePlaceholder}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := request(t, "https://api.example.com"+test.path, test.headers...)
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{"+thePlaceholder+"}")), -1
			applied := apply(t, bind(t, fixed(theValue), replace), r)
			right := r.Header.Get("Authorization")
			delete(r.Header, "Authorization")
			all := everything(t, r)
			if strings.Contains(all, theValue) || !strings.Contains(all, "{"+thePlaceholder+"}") {
				t.Errorf("sent:\n%s", all)
			}
			if applied.Secret != test.secret || (right == "Bearer "+theValue) != (test.secret != "") || strings.Contains(right, theirs) {
				t.Errorf("applied %q, Authorization %q", applied.Secret, right)
			}
		})
	}
}

func TestSecretsGoToTheirHostOverTLSOnly(t *testing.T) {
	set := bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceBearer,
		Hosts: []string{theHost, "api.example.com:80", "*.sub.example.com", "127.0.0.1:8080", "[::1]:8080", "10.0.0.7:8080", policy.HostName + ":8080"}})
	for _, test := range []struct {
		bound, url, host string
		ok               bool
	}{
		{"api.example.com:443", "https://api.example.com/", "", true},
		{"api.example.com:443", "https://api.example.com:443/", "api.example.com", true},
		{"api.example.com:443", "https://API.example.com./", "", true},
		{"api.example.com:443", "https://evil.example.com/", "", false},
		{"api.example.com:443", "https://api.example.com/", "evil.example.com", false},
		{"api.example.com:443", "https://api.example.com:444/", "", false},
		{"api.example.com:443", "http://api.example.com:443/", "", false},
		{"api.example.com:80", "http://api.example.com/", "", false},
		{"a.sub.example.com:443", "https://b.sub.example.com/", "", true},
		{"a.sub.example.com:443", "https://sub.example.com/", "", false},
		{"a.sub.example.com:443", "https://asub.example.com/", "", false},
		{"a.sub.example.com:443", "http://a.sub.example.com:443/", "", false},
		{"127.0.0.1:8080", "http://127.0.0.1:8080/", "", true},
		{"127.0.0.1:8080", "http://127.0.0.2:8080/", "", false},
		{"::1:8080", "http://[::1]:8080/", "", true},
		{"10.0.0.7:8080", "http://10.0.0.7:8080/", "", false},
		{"10.0.0.7:8080", "https://10.0.0.7:8080/", "", true},
		{policy.HostName + ":8080", "http://host.forage.internal:8080/", "", true},
		{policy.HostName + ":8080", "ws://host.forage.internal:8080/", "", false},
		{"api.example.com:443", "https:///", "", false},
	} {
		at := strings.LastIndexByte(test.bound, ':')
		port := map[string]uint16{"443": 443, "80": 80, "8080": 8080}[test.bound[at+1:]]
		c := set.For(test.bound[:at], port)
		if c == nil {
			t.Fatalf("nothing is bound to %s", test.bound)
		}
		r := request(t, test.url)
		if test.host != "" {
			r.Host = test.host
		}
		_, _, err := c.Apply(t.Context(), r)
		if (err == nil) != test.ok || (r.Header.Get("Authorization") != "") != test.ok {
			t.Errorf("the secret of %s to %s as %q: %v, Authorization %q", test.bound, test.url, test.host, err, r.Header.Get("Authorization"))
		}
		if err != nil && strings.Contains(err.Error(), theValue) {
			t.Errorf("the error tells the secret: %v", err)
		}
	}
}

func TestSecretsThatCannotBeSentAreErrors(t *testing.T) {
	for _, value := range []string{"", "a\r\nX-Evil: 1", "a\nb", "a\x00b", "a\x7fb"} {
		for _, place := range []forage.SecretPlace{forage.PlaceBearer, forage.PlaceBasic, forage.PlaceQuery} {
			r := request(t, "https://api.example.com/")
			_, _, err := bind(t, fixed(value), forage.SecretUse{Place: place, Name: "q"}).For(theHost, 443).Apply(t.Context(), r)
			if err == nil || value != "" && strings.Contains(err.Error(), value) {
				t.Errorf("%q as %s: %v", value, place, err)
			}
			if r.Header.Get("Authorization") != "" || r.URL.RawQuery != "" {
				t.Errorf("%q as %s was sent: %v", value, place, r)
			}
		}
	}
	_, _, err := bind(t, broken{}, forage.SecretUse{Place: forage.PlaceBearer}).For(theHost, 443).Apply(t.Context(), request(t, "https://api.example.com/"))
	if err == nil || !strings.Contains(err.Error(), `the secret "work": the keyring is locked`) {
		t.Errorf("a source that fails: %v", err)
	}
}

// A source that is not needed may fail.
func TestASecretWithoutAPlaceInTheRequestIsNotRead(t *testing.T) {
	r := request(t, "https://api.example.com/", "Authorization: Bearer "+theirs)
	applied := apply(t, bind(t, broken{}, forage.SecretUse{Place: forage.PlaceReplace, Name: "Authorization"}), r)
	if applied.Secret != "" || applied.Foreign != "header authorization" || r.Header.Get("Authorization") != "" {
		t.Errorf("applied %+v, sent %q", applied, r.Header)
	}
}

// answering is a source that answers for a token endpoint.
type answering struct{ fixed }

func (answering) Answer(r *http.Request) (*http.Response, bool) {
	if r.URL.Path != "/oauth/token" {
		return nil, false
	}
	return &http.Response{StatusCode: 200, Body: body("{}"), Request: r}, true
}

func TestASourceMayAnswer(t *testing.T) {
	c := bind(t, answering{theValue}, forage.SecretUse{Place: forage.PlaceBearer}).For(theHost, 443)
	r := request(t, "https://api.example.com/oauth/token")
	applied, answer, err := c.Apply(t.Context(), r)
	if err != nil || answer == nil || applied == nil || applied.Secret != "" || r.Header.Get("Authorization") != "" {
		t.Errorf("answer %v, applied %+v, %v, sent %q", answer, applied, err, r.Header)
	}
	if _, answer, err := c.Apply(t.Context(), request(t, "https://api.example.com/")); err != nil || answer != nil {
		t.Errorf("another request: answer %v, %v", answer, err)
	}
	if _, answer, err := c.Apply(t.Context(), request(t, "http://api.example.com/oauth/token")); err == nil {
		t.Errorf("in the clear: answer %v", answer)
	}
}

// A server that keeps what it gets is asked for it by a request that has no place for the secret.
func TestWhatAServerHasKeptIsHidden(t *testing.T) {
	c := bind(t, fixed(theValue), forage.SecretUse{Place: forage.PlaceReplace, Name: "X-Login"}).For(theHost, 443)
	for _, headers := range [][]string{{"X-Login: " + thePlaceholder}, {"Range: bytes=0-3"}} {
		r := request(t, "https://api.example.com/kept", headers...)
		applied, _, err := c.Apply(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, Body: io.NopCloser(strings.NewReader("kept: " + theValue))}
		if err := applied.Response(res); err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); err != nil || strings.Contains(string(text), theValue) || r.Header.Get("Range") != "" {
			t.Errorf("after %q: %q, %v; Range %q", headers, text, err, r.Header.Get("Range"))
		}
	}
}
