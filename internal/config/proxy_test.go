package config_test

import (
	"path/filepath"
	"testing"

	"forage"
	"forage/internal/config"
	"forage/internal/testdir"
)

const proxyText = `
[proxy]
listen = ["127.0.0.1:3128", "[::1]:3128", "unix:proxy.sock", "tls:0.0.0.0:3129"]
socketMode = "0660"
certificate = "server.pem"
key = "server.key"
clientCA = "clients.pem"
auditDir = "audit"
[proxy.clients.build]
template = "claude"
token = { file = "build.token" }
certificate = "URI:spiffe://example.com/build"
caFile = "ca.pem"
[proxy.clients.test]
template = "generic"
token = { command = ["pass", "x"] }
peerUid = 1000
`

func TestProxy(t *testing.T) {
	c, err := load(t, "config.toml", proxyText)
	testdir.Must(t, err)
	dir := filepath.Dir(c.Files[0])
	uid := 1000
	want := &config.Proxy{
		Listen: []config.ProxyListen{
			{Kind: config.ListenTCP, Address: "127.0.0.1:3128"}, {Kind: config.ListenTCP, Address: "[::1]:3128"},
			{Kind: config.ListenUnix, Address: dir + "/proxy.sock"}, {Kind: config.ListenTLS, Address: "0.0.0.0:3129"},
		},
		SocketMode: 0o660, Certificate: dir + "/server.pem", Key: dir + "/server.key", ClientCA: dir + "/clients.pem", AuditDir: dir + "/audit",
		Clients: map[string]config.ProxyClient{
			"build": {
				Template: "claude", Token: &forage.SecretSource{File: dir + "/build.token"},
				Certificate: "URI:spiffe://example.com/build", CAFile: dir + "/ca.pem",
			},
			"test": {Template: "generic", Token: &forage.SecretSource{Command: []string{"pass", "x"}}, PeerUID: &uid},
		},
	}
	testdir.Same(t, "", want, c.Proxy)
	shown, err := c.TOML()
	testdir.Must(t, err)
	again, err := load(t, "config.toml", string(shown))
	testdir.Must(t, err)
	testdir.Same(t, "what is shown says something else", c.Proxy, again.Proxy)
}

func TestProxyMistakes(t *testing.T) {
	const (
		top    = "[proxy]\nauditDir = '/a'\nlisten = ['127.0.0.1:1', 'unix:/s']\n"
		client = top + "[proxy.clients.c]\ntemplate = 'generic'\n"
	)
	for _, test := range []struct{ name, text, want string }{
		{"nothing", "[proxy]\nauditDir = '/a'", `:1:2: proxy: expected listen`},
		{"no audit", "[proxy]\nlisten = ['127.0.0.1:1']", `:1:2: proxy: expected auditDir`},
		{"open", "[proxy]\nauditDir = '/a'\nlisten = ['127.0.0.1:1', '0.0.0.0:3128']",
			`:3:26: proxy.listen[1]: "0.0.0.0:3128": tokens don't cross a network: expected an address of loopback, or "tls:0.0.0.0:3128" with certificate`},
		{"mapped", "[proxy]\nauditDir = '/a'\nlisten = ['[::ffff:10.0.0.1]:3128']", `tokens don't cross a network`},
		{"no certificate", "[proxy]\nauditDir = '/a'\nlisten = ['tls:127.0.0.1:1']\nkey = '/k'\nclientCA = '/c'", `:1:2: proxy: expected certificate`},
		{"mode", top + "socketMode = '0999'", `:4:1: proxy.socketMode: "0999": expected permissions`},
		{"client name", top + "[proxy.clients.'C c']\ntemplate = 'generic'\ntoken = {env = 'T'}", `proxy.clients."C c": expected a name`},
		{"no template", top + "[proxy.clients.c]\ntoken = {env = 'T'}", `:4:16: proxy.clients.c.template: no template is called ""`},
		{"template", top + "[proxy.clients.c]\ntoken = {env = 'T'}\ntemplate = 'cluade'", `:6:1: proxy.clients.c.template: no template is called "cluade"; did you mean "claude"?`},
		{"nobody", client, `:4:16: proxy.clients.c: expected token, certificate or both`},
		{"token", client + "token = {}", `:6:1: proxy.clients.c.token: expected one of file, env and command, found 0`},
		{"token variable", client + "token = {env = 'T T'}", `:6:10: proxy.clients.c.token.env: "T T" is not a variable's name`},
		{"token nowhere", "[proxy]\nauditDir = '/a'\nlisten = ['tls:127.0.0.1:1']\ncertificate = '/c'\nkey = '/k'\nclientCA = '/c'\n" +
			"[proxy.clients.c]\ntemplate = 'generic'\ntoken = {env = 'T'}", `:9:1: proxy.clients.c.token: tokens are for loopback and unix sockets`},
		{"certificate nowhere", client + "certificate = 'CN:x'", `:6:1: proxy.clients.c.certificate: certificates are for tls listeners`},
		{"certificate form", client + "certificate = 'x'", `"x": expected URI:..., DNS:... or CN:...`},
		{"one certificate for two", "[proxy]\nauditDir = '/a'\nlisten = ['tls:127.0.0.1:1']\ncertificate = '/c'\nkey = '/k'\nclientCA = '/c'\n" +
			"[proxy.clients.b]\ntemplate = 'generic'\ncertificate = 'CN:x'\n[proxy.clients.c]\ntemplate = 'generic'\ncertificate = 'CN:x'", `:12:1: proxy.clients.c.certificate: "CN:x" is that of b too`},
		{"uid", client + "token = {env = 'T'}\npeerUid = -1", `:7:1: proxy.clients.c.peerUid: -1: expected a user's number`},
		{"uid and certificate", "[proxy]\nauditDir = '/a'\nlisten = ['unix:/s', 'tls:127.0.0.1:1']\ncertificate = '/c'\nkey = '/k'\nclientCA = '/c'\n" +
			"[proxy.clients.c]\ntemplate = 'generic'\ntoken = {env = 'T'}\ncertificate = 'CN:x'\npeerUid = 1", `:11:1: proxy.clients.c.peerUid: expected no certificate as well`},
		{"uid without unix", "[proxy]\nauditDir = '/a'\nlisten = ['127.0.0.1:1']\n[proxy.clients.c]\ntemplate = 'generic'\ntoken = {env = 'T'}\npeerUid = 1", `expected a token and a unix socket`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, "config.toml", test.text)
			checkMistake(t, err, "config.toml", test.want)
		})
	}
}
