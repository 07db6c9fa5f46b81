package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

// trustedHost is the host whose TLS is looked into, since a secret is bound to it.
const trustedHost = "api.test"

// bare runs a command without any of the variables that say whom to trust: what reads
// nothing but the system's own file has to trust us too. Nor is there a proxy's.
const bare = `exec env -i PATH="$PATH" HOME="$HOME" `

// trustTests are programs that fetch $URL, each with what has to be there for it. What they
// print, and whether they like the answer, is of no interest.
var trustTests = []struct {
	name   string
	needs  string // a shell command line inside that says whether it is installed
	script string
}{
	{"curl", "curl --version", `curl -sS "$URL"`},
	{"curl-bare", "curl --version", bare + `curl -sS "$URL"`},
	{"wget", "wget --version", `wget -qO- "$URL"`},
	{"wget-bare", "wget --version", bare + `wget -qO- "$URL"`},
	{"openssl", "openssl version", `printf 'GET /openssl HTTP/1.1\r\nHost: api.test\r\nConnection: close\r\n\r\n' |
		openssl s_client -quiet -verify_return_error -verify_hostname api.test -servername api.test -connect api.test:443`},
	{"git", "git --version", `git ls-remote "$URL"`},
	{"git-bare", "git --version", bare + `git ls-remote "$URL"`},
	{"python", "python3 --version", `python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1]).read()' "$URL"`},
	{"python-bare", "python3 --version", bare + `python3 -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1]).read()' "$URL"`},
	{"requests", "python3 -c 'import requests'", `python3 -c 'import sys, requests; requests.get(sys.argv[1])' "$URL"`},
	{"httpx", "python3 -c 'import httpx'", `python3 -c 'import sys, httpx; httpx.get(sys.argv[1], timeout=300)' "$URL"`},
	{"pip", "python3 -m pip --version", `python3 -m pip download --no-deps --disable-pip-version-check --retries 0 --timeout 300 --index-url "$URL/" nothing`},
	{"node", "node --version", `node -e 'fetch(process.argv[1]).then(r => r.text())' "$URL"`},
	{"node-https", "node --version", `node -e 'require("https").get(process.argv[1], r => r.resume())' "$URL"`},
	{"npm", "npm --version", `npm view --fetch-retries=0 --registry "$URL/" nothing`},
	{"go", "test -x ./fetch", `./fetch "$URL"`},
	{"go-bare", "test -x ./fetch", bare + `./fetch "$URL"`},
	{"java", "java --list-modules | grep jdk.compiler", `java Fetch.java "$URL"`},
	{"cargo", "cargo --version", `cp Cargo.toml lib.rs /tmp && cd /tmp && CARGO_HOME=/tmp/cargo cargo fetch \
		--config 'source.crates-io.replace-with="mock"' --config "source.mock.registry=\"sparse+$URL/\""`},
	{"ruby", "ruby --version", `ruby -ropen-uri -e 'URI.open(ARGV[0]).read' "$URL"`},
	{"php", "php -r 'exit(function_exists(\"curl_init\") ? 0 : 1);'", `php -r '$c = curl_init($argv[1]); exit(curl_exec($c) ? 0 : 1);' "$URL"`},
	{"perl", "perl -MIO::Socket::SSL -e 1", `perl -MHTTP::Tiny -e 'exit !HTTP::Tiny->new(verify_SSL => 1)->get($ARGV[0])->{success}' "$URL"`},
	{"deno", "deno --version", `deno eval 'await (await fetch(Deno.args[0])).text()' "$URL"`},
	{"bun", "bun --version", `bun -e 'await (await fetch(process.argv[1])).text()' "$URL"`},
}

// slow are programs that take seconds to start, which a soak has the time for.
var slow = []string{"pip", "npm", "java", "cargo"}

const notInstalled = "it is not installed here"

// TestTrust runs what is installed here against a host whose TLS is looked into: the
// secret that reaches the host shows that it was, and that the program trusted us.
func TestTrust(t *testing.T) {
	box := newTrustBox(t)
	var skipped []string
	for _, test := range trustTests {
		if slices.Contains(slow, test.name) && !testdir.Soak() {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			script := "if ! { " + test.needs + "; } >/dev/null 2>&1; then echo " + notInstalled + "; exit; fi\n" +
				"URL=https://" + trustedHost + "/" + test.name + "\n" + test.script
			out, err := box.run(t, script)
			if strings.Contains(out, notInstalled) {
				skipped = append(skipped, test.name)
				t.Skip(notInstalled)
			}
			asked := box.asked(t)
			if !strings.Contains(asked, "https://"+trustedHost+"/"+test.name) || !strings.Contains(asked, "X-Key: sk-trusted") {
				t.Errorf("its request did not come, or not with the secret (%v):\n%s\nthe server saw:\n%s", err, out, asked)
			}
		})
	}
	if len(skipped) > 0 {
		t.Logf("not installed here: %s", strings.Join(skipped, " "))
	}
}

// trustBox is a sandbox that stays, with a secret for trustedHost.
type trustBox struct {
	dir string
	log string
	who *syscall.Credential
}

func newTrustBox(t *testing.T) *trustBox {
	t.Helper()
	dir := publicCopy(t)
	b := &trustBox{dir: dir, log: filepath.Join(dir, "server.log"), who: callers()[0].credential}
	log, err := os.Create(b.log)
	check(t, err)
	t.Cleanup(func() { log.Close() })
	server, ca := tlsServer(echo("SERVER", log), trustedHost)
	t.Cleanup(server.Close)
	check(t, os.WriteFile(filepath.Join(dir, "server.pem"), ca, 0o644))
	check(t, os.WriteFile(filepath.Join(dir, "config.toml"), fmt.Appendf(nil, `
[network]
resolve = { "%[1]s:443" = "%[2]s" }
upstreamCA = "server.pem"
[secrets.key]
command = ["echo", "sk-trusted"]
hosts = ["%[1]s"]
header = "X-Key"
[templates.trust]
allowedHosts = ["%[1]s"]
secrets = ["key"]
`, trustedHost, server.Listener.Addr()), 0o644))
	project := filepath.Join(dir, "testdata", "trust")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(project, "fetch"), "fetch.go")
	build.Dir, build.Env = project, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a Go program: %v\n%s", err, out)
	}
	if b.who != nil { // pip and others write beside what they run on
		check(t, os.Chown(project, int(b.who.Uid), int(b.who.Gid)))
	}
	return b
}

// run runs a script in a sandbox of its own.
func (b *trustBox) run(t *testing.T, script string) (string, error) {
	t.Helper()
	home := filepath.Join(b.dir, "tmp", "home")
	cmd := exec.CommandContext(t.Context(), filepath.Join(b.dir, "bin", "forage-ctl"), "run", "-t", "trust", "--timeout", "5m", "--", "sh", "-c", script)
	cmd.Dir = filepath.Join(b.dir, "testdata", "trust")
	cmd.Env = []string{
		"HOME=" + home, "PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8",
		"FORAGE_CONFIG=" + filepath.Join(b.dir, "config.toml"),
		"FORAGE_STATE_DIR=" + home + "/state", "FORAGE_RUNTIME_DIR=" + home + "/run",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: b.who, Pdeathsig: unix.SIGKILL}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// asked is what the server was asked since the last call.
func (b *trustBox) asked(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(b.log)
	check(t, err)
	check(t, os.Truncate(b.log, 0))
	return string(text)
}
