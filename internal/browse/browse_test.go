package browse

import (
	"strings"
	"testing"

	"forage/internal/testdir"
)

func TestCheck(t *testing.T) {
	for _, tc := range []struct {
		in   string
		want Page
	}{
		{"https://claude.ai/oauth?a=b#c", Page{URL: "https://claude.ai/oauth?a=b#c", Host: "claude.ai"}},
		{"HTTPS://Claude.AI:443", Page{URL: "https://claude.ai", Host: "claude.ai"}},
		{"http://a.example:8080/", Page{URL: "http://a.example:8080/", Host: "a.example:8080"}},
		{"https://a.example/ü\u202e b", Page{URL: "https://a.example/%C3%BC%E2%80%AE%20b", Host: "a.example"}},
		{"https://cláude.ai/", Page{URL: "https://xn--clude-yqa.ai/", Host: "xn--clude-yqa.ai"}},
		{"https://1.1.1.1/", Page{URL: "https://1.1.1.1/", Host: "1.1.1.1"}},
		{"https://[2606:4700::1111]/", Page{URL: "https://[2606:4700::1111]/", Host: "[2606:4700::1111]"}},
		{"http://localhost:3000/a", Page{URL: "http://localhost:3000/a", Host: "localhost:3000", Local: 3000}},
		{"http://0x7f.1:631/", Page{URL: "http://127.0.0.1:631/", Host: "127.0.0.1:631", Local: 631}},
		{"http://2130706433/", Page{URL: "http://127.0.0.1/", Host: "127.0.0.1", Local: 80}},
		{"https://[::ffff:127.0.0.1]/", Page{URL: "https://127.0.0.1/", Host: "127.0.0.1", Local: 443}},
		{"http://0.0.0.0:9/", Page{URL: "http://0.0.0.0:9/", Host: "0.0.0.0:9", Local: 9}},
		{"http://x.localhost:9/", Page{URL: "http://x.localhost:9/", Host: "x.localhost:9", Local: 9}},
		{"https://a.example/?redirect_uri=http%3A%2F%2Flocalhost%3A41234%2Fcallback",
			Page{URL: "https://a.example/?redirect_uri=http%3A%2F%2Flocalhost%3A41234%2Fcallback", Host: "a.example", Callback: 41234}},
		{"https://a.example/?redirect_uri=http://127.0.0.1:7", Page{URL: "https://a.example/?redirect_uri=http://127.0.0.1:7", Host: "a.example", Callback: 7}},
		{"https://a.example/?redirect_uri=https://b.example:7", Page{URL: "https://a.example/?redirect_uri=https://b.example:7", Host: "a.example"}},
	} {
		got, err := Check(tc.in)
		testdir.Must(t, err)
		testdir.Same(t, tc.in, tc.want, got)
		again, err := Check(got.URL)
		testdir.Must(t, err)
		testdir.Same(t, tc.in+" again", got, again)
	}
}

func TestCheckRefuses(t *testing.T) {
	for _, in := range []string{
		"", "a.pdf", "/etc/passwd", "file:///etc/passwd", "javascript:alert(1)", "data:text/html,x", "vscode://x/y", "http:a.example", "https:///x", "//a.example",
		"-e", "https://user@evil.example/", "https://accounts.google.com:x@evil.example/", "https://accounts.google.com@evil.example",
		"https://a.example/\x1b]0;x\a", "https://a.example/\nhttps://b.example", "https://a.example\\@evil.example/", "https://a.example/?q=\u202e", "https://a.example/?q=a b",
		"https://a.example/?<script>", "https://a.example/?`id`", "https://a.example/?\"x", "https://a_\x80.example", "https://a..example/", "https://%61.example%00/",
		"http://192.168.1.1/", "http://10.0.0.1:8080/", "http://169.254.169.254/latest", "http://[fe80::1]/", "http://127.0.0.53:8080/", "http://[fd00::1]/", "http://router/", "http://0300.0250.1.1/",
		"https://a.example:99999/", "https://a.example/" + strings.Repeat("x", MaxURL),
	} {
		if got, err := Check(in); err == nil {
			t.Errorf("%q is shown as %q", in, got.URL)
		}
	}
}

// Whatever is let through, is what it looks like.
func FuzzCheck(f *testing.F) {
	f.Add("https://claude.ai/oauth?redirect_uri=http://localhost:1/")
	f.Add("https://user@evil.example/\u202e")
	f.Fuzz(func(t *testing.T, in string) {
		page, err := Check(in)
		if err != nil {
			return
		}
		if len(page.URL) > MaxURL || strings.ContainsFunc(page.URL, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune("\\\"<>`{|}^", r) }) {
			t.Errorf("%q is shown as %q", in, page.URL)
		}
		_, rest, _ := strings.Cut(page.URL, "://")
		if rest != page.Host && !strings.HasPrefix(strings.TrimPrefix(rest, page.Host), "/") && !strings.ContainsAny(strings.TrimPrefix(rest, page.Host)[:1], "?#") {
			t.Errorf("%q has another host than %q", page.URL, page.Host)
		}
	})
}
