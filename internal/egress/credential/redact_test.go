package credential

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"

	"forage"
)

// model redacts in the plainest way: the first needle that is found, then on behind it. early are
// the places of what may be passed on before a needle is known to be one.
func model(n *needles, text string) (redacted string, early map[int]bool) {
	out := []byte(text)
	early = map[int]bool{}
	for start := 0; start < len(text); {
		best, length := -1, 0
		for _, needle := range n.texts {
			if i := strings.Index(text[start:], needle); i >= 0 && (best < 0 || start+i < best) {
				best, length = start+i, len(needle)
			}
		}
		if best < 0 {
			break
		}
		for i := range length {
			out[best+i] = n.fill
			early[best+i] = i < min(tailMin-1, length/4)
		}
		start = best + length
	}
	return string(out), early
}

// agrees says whether got is what model says, without a long beginning of a needle at its end.
func agrees(n *needles, text, got string) bool {
	redacted, early := model(n, text)
	want := []byte(redacted)
	keep, _ := n.begun(want)
	for i := range min(keep, tailMin-1) {
		early[len(want)-keep+i] = true
	}
	n.end(want)
	for i := range min(len(want), len(got)) {
		if early[i] && got[i] == text[i] {
			want[i] = got[i]
		}
	}
	return got == string(want)
}

// through reads text, that comes in pieces of those sizes, through a redactor.
func through(t testing.TB, n *needles, text string, sizes, reads func() int) string {
	t.Helper()
	ended := 0
	r := &redactor{body: io.NopCloser(nil), src: &pieces{text, sizes}, needles: n, atEnd: func() { ended++ }}
	var out []byte
	for {
		p := make([]byte, max(1, reads()))
		k, err := r.Read(p)
		out = append(out, p[:k]...)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if ended != 1 {
		t.Errorf("the end was told %d times", ended)
	}
	return string(out)
}

// pieces is a reader that gives its text in pieces.
type pieces struct {
	text  string
	sizes func() int
}

func (p *pieces) Read(buf []byte) (int, error) {
	if p.text == "" {
		return 0, io.EOF
	}
	n := copy(buf, p.text[:min(len(p.text), max(1, p.sizes()))])
	p.text = p.text[n:]
	return n, nil
}

func TestEveryFormOfTheSecretIsOverwritten(t *testing.T) {
	secret := `sk-"A/b+c&<d>'é=9hJ3nQx7Zr0LmB2vT5yWcK8d`
	n := newNeedles([]string{secret, "Bearer " + secret})
	for name, text := range map[string]string{
		"plain":            secret,
		"header":           "Bearer " + secret,
		"query":            url.QueryEscape(secret),
		"path":             url.PathEscape(secret),
		"query, lower":     lowerEscapes(url.QueryEscape(secret)),
		"json":             `sk-\"A/b+c\u0026\u003cd\u003e'é=9hJ3nQx7Zr0LmB2vT5yWcK8d`,
		"json, not HTML":   `sk-\"A/b+c&<d>'é=9hJ3nQx7Zr0LmB2vT5yWcK8d`,
		"json, of PHP":     `sk-\"A\/b+c&<d>'é=9hJ3nQx7Zr0LmB2vT5yWcK8d`,
		"html":             `sk-&#34;A/b+c&amp;&lt;d&gt;&#39;é=9hJ3nQx7Zr0LmB2vT5yWcK8d`,
		"base64":           base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64, url":      base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64, 1 before": base64.StdEncoding.EncodeToString([]byte(":" + secret + "tail")),
		"base64, 2 before": base64.StdEncoding.EncodeToString([]byte("u:" + secret)),
		"password":         base64.StdEncoding.EncodeToString([]byte("x-access-token:" + secret + "\n")),
		"hex":              hex.EncodeToString([]byte(secret)),
		"hex, upper":       strings.ToUpper(hex.EncodeToString([]byte(secret))),
	} {
		got := n.text("before " + text + " after")
		if len(got) != len(text)+13 {
			t.Errorf("%s: the length went from %d to %d", name, len(text)+13, len(got))
		}
		hidden := strings.Count(got, string(n.fill))
		if hidden < len(text)-24 || hidden < 40 || strings.Contains(got, "9hJ3nQx7") {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
}

func TestASecretOfOneCaseIsOverwrittenInTheOther(t *testing.T) {
	for _, secret := range []string{"sk-or-v1-0123456789abcdef0123456789abcdef", "AKIA0123456789ABCDEF"} {
		for _, text := range []string{strings.ToUpper(secret), strings.ToLower(secret)} {
			if got := newNeedles([]string{secret}).text("key " + text); got != "key "+strings.Repeat("*", len(text)) {
				t.Errorf("%s became %q", text, got)
			}
		}
	}
}

func TestSecretsTooShortToTellAreNotLookedFor(t *testing.T) {
	if n := newNeedles([]string{"12345", ""}); n != nil {
		t.Errorf("needles are %q", n.texts)
	}
	if n := newNeedles([]string{"12345", "Basic bWU6MTIzNDU="}); n == nil || n.text("Basic bWU6MTIzNDU=") == "Basic bWU6MTIzNDU=" {
		t.Errorf("the header of a short secret is shown: %+v", n)
	}
}

func TestWhatIsOverwrittenIsNoNeedle(t *testing.T) {
	n := newNeedles([]string{"**********"})
	if got := n.text("a **********"); got == "a **********" {
		t.Errorf("a secret of stars is overwritten with stars")
	}
}

func TestStreamsAreRedactedHoweverTheyAreSplit(t *testing.T) {
	n := newNeedles([]string{"abcabd", "bcaXcabd", "zzzzzzzz", "XabcXabcXabcXabcXabcXabcXabcXabdd"})
	random := rand.New(rand.NewPCG(1, 2))
	for range 3000 {
		text := make([]byte, random.IntN(120))
		for i := range text {
			text[i] = "abcdXz"[random.IntN(6)]
		}
		for range random.IntN(4) {
			needle := n.texts[random.IntN(len(n.texts))]
			text = append(text, needle[:random.IntN(len(needle)+1)]...)
		}
		size := 1 + random.IntN(20)
		got := through(t, n, string(text), func() int { return random.IntN(size) }, func() int { return random.IntN(1200) })
		if !agrees(n, string(text), got) {
			want, _ := model(n, string(text))
			t.Fatalf("%q became %q, want %q", text, got, want)
		}
	}
}

// A reader waits for the next event of a stream: it gets all of the last one, unless that ends in
// much of the secret.
func TestOnlyWhatMayBeASecretIsHeldBack(t *testing.T) {
	const secret = "sk-ant-api03-9hJ3nQx7Zr0LmB2vT5yWcK8d"
	n := newNeedles([]string{secret})
	for _, test := range []struct{ sent, passed, next, then string }{
		{"data: {\"a\": 1}\n\n", "data: {\"a\": 1}\n\n", "x", "x"},
		{"data: " + secret[:36] + "e\n\n", "data: " + secret[:36] + "e\n\n", "x", "x"},
		{"data: " + secret[:20], "data: ", "x", secret[:20] + "x"},
		{"data: " + secret[:20], "data: ", secret[20:] + "!", strings.Repeat("*", 37) + "!"},
		{"data: " + secret[:8], "data: ", secret[8:] + "!", strings.Repeat("*", 37) + "!"},
		{"data: " + secret[:7], "data: " + secret[:7], secret[7:] + "!", strings.Repeat("*", 30) + "!"},
		{"data: task", "data: task", " done", " done"}, // "sk" may be the beginning
		{"data: " + secret + "\n", "data: " + strings.Repeat("*", 37) + "\n", "x", "x"},
	} {
		from, to := io.Pipe()
		r := &redactor{body: from, src: from, needles: n, atEnd: func() {}}
		p := make([]byte, 4096)
		for i, pair := range [][2]string{{test.sent, test.passed}, {test.next, test.then}} {
			go to.Write([]byte(pair[0]))
			k, err := r.Read(p)
			if got := string(p[:k]); err != nil || got != pair[1] {
				t.Errorf("%q, then %q: number %d came as %q (%v), want %q", test.sent, test.next, i+1, got, err, pair[1])
			}
		}
		to.Close()
	}
}

func TestAReadErrorEndsTheBodyWithoutTheSecret(t *testing.T) {
	n := newNeedles([]string{"secret-value"})
	broken := errors.New("broken")
	src := io.MultiReader(strings.NewReader("a secret-value and secret-val"), iotest.ErrReader(broken))
	r := &redactor{body: io.NopCloser(nil), src: src, needles: n, atEnd: func() {}}
	got, err := io.ReadAll(r)
	if !errors.Is(err, broken) || string(got) != "a ************ and **********" {
		t.Errorf("got %q, %v", got, err)
	}
}

func FuzzRedact(f *testing.F) {
	f.Add([]byte("secret-value"), []byte("a secret-value"), uint64(1))
	f.Add([]byte("aaaaaab"), []byte("aaaaaaaaaaaaaab"), uint64(3))
	f.Add([]byte("********"), []byte("*******************"), uint64(3))
	f.Fuzz(func(t *testing.T, secret, text []byte, seed uint64) {
		if len(secret) > 200 || len(text) > 1000 {
			return
		}
		n := newNeedles([]string{string(secret), "Bearer " + string(secret)})
		if n == nil {
			return
		}
		random := rand.New(rand.NewPCG(seed, 0))
		at := random.IntN(len(text) + 1)
		whole := string(text[:at]) + string(secret) + string(text[at:])
		size, room := 1+random.IntN(40), 1+random.IntN(2000)
		got := through(t, n, whole, func() int { return random.IntN(size) }, func() int { return random.IntN(room) })
		if !n.has(n.fill) && !agrees(n, whole, got) {
			want, _ := model(n, whole)
			t.Fatalf("%q became %q, want %q", whole, got, want)
		}
		for _, needle := range n.texts {
			if strings.Contains(got, needle) && !n.has(n.fill) {
				t.Fatalf("%q is left in %q", needle, got)
			}
		}
	})
}

// After a rotation the values before are overwritten as well, in all their forms; a bounded number of them.
func TestRotatedValuesAreOverwritten(t *testing.T) {
	for name, tt := range map[string]struct {
		use    forage.SecretUse
		values func(i int) (value, shown string)
	}{
		"bearer": {forage.SecretUse{Place: forage.PlaceBearer}, func(i int) (string, string) {
			value := fmt.Sprintf("secret/%d+of \"some\" <length>&", i)
			return value, value
		}},
		"AWS key with a session": {forage.SecretUse{Place: forage.PlaceSigV4}, func(i int) (string, string) {
			session := fmt.Sprintf("session/token+%d/that&is<rather>long==", i)
			return fmt.Sprintf("AKIDEXAMPLE:secret/key+%d/of&an<account>:%s", i, session), session
		}},
	} {
		var value string
		c := bind(t, sourceFunc(func() string { return value }), tt.use).For(theHost, 443)
		var shown []string
		for i := range 5 {
			var text string
			value, text = tt.values(i)
			shown = append(shown, text)
			p, err := c.prepare(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for age := range min(i, olderMax) + 1 {
				for _, form := range append(encoded(shown[i-age]), shown[i-age]) {
					if p.needles.text(form) == form {
						t.Errorf("%s: of the value %d rotations ago %q is not found", name, age, form)
					}
				}
			}
			if len(p.older) > olderMax {
				t.Errorf("%s: %d older values are kept", name, len(p.older))
			}
		}
	}
}
