package proxy

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"forage"
	"forage/internal/config"
)

func basic(name, token string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+token))
}

func someIdentities(t *testing.T) *identities {
	t.Helper()
	uid := 1000
	ids := &identities{}
	for _, c := range []struct {
		name   string
		client config.ProxyClient
		token  string
	}{
		{"a", config.ProxyClient{Token: &forage.SecretSource{}, Certificate: "URI:spiffe://x/a"}, tokenA},
		{"b", config.ProxyClient{Token: &forage.SecretSource{}, PeerUID: &uid}, tokenB},
		{"c", config.ProxyClient{Certificate: "CN:c"}, ""},
		{"d", config.ProxyClient{Certificate: "DNS:d.example"}, ""},
	} {
		if err := ids.add(c.name, c.client, c.token); err != nil {
			t.Fatal(err)
		}
	}
	return ids
}

func TestIdentify(t *testing.T) {
	ids := someIdentities(t)
	tcp, unix := peer{kind: config.ListenTCP}, peer{kind: config.ListenUnix, uid: 1000}
	cert := func(names ...string) peer { return peer{kind: config.ListenTLS, names: names} }
	for name, test := range map[string]struct {
		peer   peer
		header string
		want   string
		err    error
	}{
		"bearer":                       {tcp, "Bearer " + tokenA, "a", nil},
		"bearer in small letters":      {tcp, "bearer " + tokenA, "a", nil},
		"basic":                        {tcp, basic("a", tokenA), "a", nil},
		"basic without a name":         {tcp, basic("", tokenA), "a", nil},
		"unix":                         {unix, basic("a", tokenA), "a", nil},
		"nothing":                      {tcp, "", "", errNoToken},
		"no token":                     {tcp, "Bearer ", "", errNoToken},
		"no token but a name":          {tcp, basic("c", ""), "", errNoToken},
		"a name alone":                 {tcp, "Basic " + base64.StdEncoding.EncodeToString([]byte("a")), "", errNoToken},
		"not base64":                   {tcp, "Basic a:" + tokenA, "", errNoToken},
		"another scheme":               {tcp, "Digest " + tokenA, "", errNoToken},
		"the token alone":              {tcp, tokenA, "", errNoToken},
		"another token":                {tcp, "Bearer " + tokenA + "x", "", errWrongToken},
		"the beginning of a token":     {tcp, "Bearer " + tokenA[:len(tokenA)-1], "", errWrongToken},
		"a space before":               {tcp, "Bearer  " + tokenA, "", errWrongToken},
		"another's name":               {tcp, basic("b", tokenA), "", errOtherName},
		"a name that is none":          {tcp, basic("root", tokenA), "", errOtherName},
		"the right user":               {unix, basic("b", tokenB), "b", nil},
		"another user":                 {peer{kind: config.ListenUnix, uid: 1001}, basic("b", tokenB), "", errOtherUser},
		"root":                         {peer{kind: config.ListenUnix}, basic("b", tokenB), "", errOtherUser},
		"a user without a unix socket": {peer{kind: config.ListenTCP, uid: 1000}, basic("b", tokenB), "", errOtherUser},
		"URI":                          {cert("URI:spiffe://x/a"), "", "a", nil},
		"CN":                           {cert("CN:c"), "", "c", nil},
		"DNS among others":             {cert("URI:spiffe://x/z", "DNS:e.example", "DNS:d.example", "CN:z"), "", "d", nil},
		"a name of another kind":       {cert("DNS:c", "URI:c"), "", "", errCertificate},
		"a longer name":                {cert("URI:spiffe://x/a/b", "CN:cc"), "", "", errCertificate},
		"no name":                      {cert(), "", "", errCertificate},
		"two clients' names":           {cert("CN:c", "DNS:d.example"), "", "", errCertificates},
		"a token over TLS":             {cert("CN:z"), basic("a", tokenA), "", errTokenOverTLS},
		"a token beside a certificate": {cert("CN:c"), basic("a", tokenA), "", errTokenOverTLS},
		"a certificate on loopback":    {peer{kind: config.ListenTCP, names: []string{"CN:c"}}, "", "", errNoToken},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ids.identify(test.peer, test.header)
			if got != test.want || !errors.Is(err, test.err) {
				t.Errorf("got %q, %v; want %q, %v", got, err, test.want, test.err)
			}
			if err != nil && (strings.Contains(err.Error(), tokenA) || strings.Contains(err.Error(), tokenB)) {
				t.Errorf("%v tells a token", err)
			}
		})
	}
}

func TestTokensAreChecked(t *testing.T) {
	withToken := config.ProxyClient{Token: &forage.SecretSource{}}
	for name, test := range map[string]struct{ token, want string }{
		"none":      {"", "0 characters"},
		"short":     {"fifteen-letters", "15 characters"},
		"long":      {strings.Repeat("x", maxToken+1), "4097 characters"},
		"a space":   {"0123456789 0123456789", "spaces"},
		"not ASCII": {"0123456789012345ä", "not ASCII"},
		"that of a": {tokenA, "it is the token of a too"},
	} {
		t.Run(name, func(t *testing.T) {
			err := someIdentities(t).add("new", withToken, test.token)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "proxy.clients.new.token") {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if test.token != "" && strings.Contains(err.Error(), test.token) {
				t.Errorf("%v tells the token", err)
			}
		})
	}
}

// FuzzIdentify: whatever is in the header, only a whole token makes a client.
func FuzzIdentify(f *testing.F) {
	f.Add("Bearer " + tokenA)
	f.Add(basic("a", tokenA))
	f.Add("Basic Og==")
	ids := &identities{}
	if err := ids.add("a", config.ProxyClient{Token: &forage.SecretSource{}}, tokenA); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, header string) {
		name, err := ids.identify(peer{kind: config.ListenTCP}, header)
		if (name == "") == (err == nil) {
			t.Fatalf("%q, %v", name, err)
		}
		_, value, _ := strings.Cut(header, " ")
		pair, _ := base64.StdEncoding.DecodeString(value)
		if name != "" && value != tokenA && string(pair) != "a:"+tokenA && string(pair) != ":"+tokenA {
			t.Fatalf("%q is taken for %s", header, name)
		}
	})
}
