package credential

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strings"
	"testing"

	"forage"
	"forage/internal/secrets"

	"github.com/google/go-cmp/cmp"
)

// world is a server that shows what it gets, and a client that speaks to it with
// a credential put in.
type world struct {
	server *httptest.Server
	set    *Set
	client *http.Transport
}

func newWorld(t testing.TB, http2 bool, handler http.HandlerFunc) *world {
	t.Helper()
	w := &world{server: httptest.NewUnstartedServer(handler)}
	w.server.EnableHTTP2 = http2
	w.server.StartTLS()
	t.Cleanup(w.server.Close)
	w.client = w.server.Client().Transport.(*http.Transport).Clone()
	w.client.DisableCompression = true
	t.Cleanup(w.client.CloseIdleConnections)
	w.set = bind(t, fixed(theValue), forage.SecretUse{Hosts: []string{w.server.Listener.Addr().String()}, Place: forage.PlaceBearer})
	return w
}

// do sends a request as egress does. Early headers are given to early.
func (w *world) do(t testing.TB, method string, early func(http.Header)) (*http.Response, error) {
	t.Helper()
	ctx := t.Context()
	var applied *Applied
	if early != nil {
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			applied.Header(http.Header(h))
			early(http.Header(h))
			return nil
		}})
	}
	r, err := http.NewRequestWithContext(ctx, method, w.server.URL+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip, br")
	r.Header.Set("Range", "bytes=0-10")
	addr := w.server.Listener.Addr().(*net.TCPAddr)
	applied, _, err = w.set.For("127.0.0.1", uint16(addr.Port)).Apply(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	res, err := w.client.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res, applied.Response(res)
}

// shown is everything that a client gets to see of an answer.
func shown(t testing.TB, res *http.Response) string {
	t.Helper()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %v %s %v", res.Status, res.Header, text, res.Trailer)
}

// leaks says whether text has the secret in it, or much of it.
func leaks(text string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(theValue[len(theValue)-16:])) ||
		strings.Contains(text, base64.StdEncoding.EncodeToString([]byte(theValue))[4:24])
}

func TestTheServerGetsTheSecretAndTheClientDoesNot(t *testing.T) {
	got := func(r *http.Request) string { return strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ") }
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"body", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, got(r)) }},
		{"body, whole header", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header) }},
		{"body, in pieces", func(w http.ResponseWriter, r *http.Request) {
			for _, c := range got(r) {
				fmt.Fprintf(w, "%c", c)
				w.(http.Flusher).Flush()
			}
		}},
		{"body, base64", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, base64.StdEncoding.EncodeToString([]byte(got(r))))
		}},
		{"header", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-Echo", "a "+got(r)+" b") }},
		{"header, twice", func(w http.ResponseWriter, r *http.Request) { w.Header()["X-Echo"] = []string{got(r), got(r)} }},
		{"header's name", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("X-"+got(r), "1") }},
		{"location", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "https://evil.example/?x="+url.QueryEscape(got(r)))
			w.WriteHeader(http.StatusFound)
		}},
		{"cookie", func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Set-Cookie", "session="+got(r)) }},
		{"trailer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Echo")
			io.WriteString(w, "text")
			w.Header().Set("X-Echo", got(r))
		}},
		{"trailer, not announced", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "text")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"X-Echo", got(r))
		}},
		{"trailer's name", func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, "text")
			w.(http.Flusher).Flush()
			w.Header().Set(http.TrailerPrefix+"X-"+got(r), "1")
		}},
		{"trailer behind gzip", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, got(r))
			z.Close()
			w.Header().Set(http.TrailerPrefix+"X-Echo", got(r))
		}},
		{"gzip", encodedEcho("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })},
		{"x-gzip, case", encodedEcho("X-GZip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) })},
		{"deflate", encodedEcho("deflate", func(w io.Writer) io.WriteCloser { return zlib.NewWriter(w) })},
		{"deflate, raw", encodedEcho("deflate", func(w io.Writer) io.WriteCloser {
			z, _ := flate.NewWriter(w, flate.BestSpeed)
			return z
		})},
		{"error answer", func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "no such key: "+got(r), http.StatusUnauthorized)
		}},
		{"not modified", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Etag", `"`+got(r)+`"`)
			w.WriteHeader(http.StatusNotModified)
		}},
		{"early hints", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Link", "<"+got(r)+">")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			io.WriteString(w, "text")
		}},
	} {
		for _, http2 := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, http2 %t", test.name, http2), func(t *testing.T) {
				seen := ""
				w := newWorld(t, http2, func(w http.ResponseWriter, r *http.Request) {
					seen = got(r)
					if r.Header.Get("Accept-Encoding") != "identity" || r.Header.Get("Range") != "" {
						t.Errorf("asked for pieces or for compression: %v", r.Header)
					}
					test.handler(w, r)
				})
				early := ""
				res, err := w.do(t, "GET", func(h http.Header) { early += fmt.Sprint(h) })
				if err != nil {
					t.Fatal(err)
				}
				if text := early + shown(t, res); leaks(text) {
					t.Errorf("the client sees %s", text)
				}
				if seen != theValue {
					t.Errorf("the server got %q", seen)
				}
			})
		}
	}
}

func encodedEcho(coding string, writer func(io.Writer) io.WriteCloser) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var text bytes.Buffer
		z := writer(&text)
		fmt.Fprint(z, "before ", r.Header, " after")
		z.Close()
		w.Header().Set("Content-Encoding", coding)
		w.Header().Set("Content-Length", fmt.Sprint(text.Len()))
		w.Write(text.Bytes())
	}
}

func TestDecodedAnswersAreWhole(t *testing.T) {
	w := newWorld(t, false, encodedEcho("gzip", func(w io.Writer) io.WriteCloser { return gzip.NewWriter(w) }))
	res, err := w.do(t, "GET", nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.ContentLength != -1 || res.Header.Get("Content-Length") != "" || res.Header.Get("Content-Encoding") != "" {
		t.Errorf("a decoded answer says: length %d, %v", res.ContentLength, res.Header)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil || !bytes.HasPrefix(text, []byte("before ")) || !bytes.HasSuffix(text, []byte(" after")) {
		t.Errorf("got %q, %v", text, err)
	}
}

func TestAnswersThatCannotBeLookedThroughAreRefused(t *testing.T) {
	for name, headers := range map[string]http.Header{
		"br":         {"Content-Encoding": {"br"}},
		"zstd":       {"Content-Encoding": {"zstd"}},
		"below":      {"Content-Encoding": {"br, gzip"}},
		"twice":      {"Content-Encoding": {"gzip", "br"}},
		"gzip twice": {"Content-Encoding": {"gzip, gzip"}},
		"grpc":       {"Grpc-Encoding": {"gzip"}},
		"connect":    {"Connect-Content-Encoding": {"gzip"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) {
				for name, values := range headers {
					w.Header()[name] = values
				}
				io.WriteString(w, "text")
			})
			if _, err := w.do(t, "GET", nil); !errors.As(err, new(*EncodedError)) {
				t.Errorf("got %v, want an *EncodedError", err)
			}
		})
	}
}

func TestAnswersWithoutABodyAreNotDecoded(t *testing.T) {
	w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Length", "123")
	})
	res, err := w.do(t, "HEAD", nil)
	if err != nil || res.ContentLength != 123 {
		t.Fatalf("length %d, %v", res.ContentLength, err)
	}
	shown(t, res)
}

func TestABrokenEncodingIsAnErrorOfTheBody(t *testing.T) {
	for name, text := range map[string]string{"none": "not gzip at all", "cut": "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff\x4b"} {
		w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			io.WriteString(w, text)
		})
		res, err := w.do(t, "GET", nil)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := io.ReadAll(res.Body); err == nil {
			t.Errorf("%s: read %q without an error", name, text)
		}
	}
}

func TestGarbageBehindADeflatedBodyIsBounded(t *testing.T) {
	var text bytes.Buffer
	z := zlib.NewWriter(&text)
	io.WriteString(z, "hello")
	z.Close()
	res := &http.Response{StatusCode: 200, Header: http.Header{"Content-Encoding": {"deflate"}}, Body: io.NopCloser(io.MultiReader(&text, zeros{}))}
	if err := (&Applied{needles: newNeedles([]string{theValue})}).Response(res); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(res.Body); string(got) != "hello" || err == nil {
		t.Errorf("got %q, %v; want hello and an error", got, err)
	}
}

// A server that compresses, though it was asked not to, holds nothing up either.
func TestCompressedEventsComeAtOnce(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate"} {
		next := make(chan bool)
		w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", coding)
			var z interface {
				io.Writer
				Flush() error
			} = gzip.NewWriter(w)
			if coding == "deflate" {
				z = zlib.NewWriter(w)
			}
			for i := range 3 {
				fmt.Fprintf(z, "data: %d %s\n\n", i, r.Header.Get("Authorization"))
				z.Flush()
				w.(http.Flusher).Flush()
				<-next
			}
		})
		res, err := w.do(t, "GET", nil)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, 4096)
		for i := range 3 {
			n, err := io.ReadAtLeast(res.Body, p, 10+len("Bearer "+theValue))
			want := fmt.Sprintf("data: %d Bearer %s\n\n", i, strings.Repeat("*", len(theValue)))
			if diff := cmp.Diff(want, string(p[:n])); diff != "" || err != nil {
				t.Errorf("%s, event %d: %v (-want +got):\n%s", coding, i, err, diff)
			}
			next <- true
		}
	}
}

// A session that the secret has opened is as good as the secret.
func TestCookiesStayOutside(t *testing.T) {
	w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) { w.Header().Set("Set-Cookie", "session=1") })
	res, err := w.do(t, "GET", nil)
	if err != nil || res.Header.Get("Set-Cookie") != "" {
		t.Errorf("the client gets %v, %v", res.Header, err)
	}
}

func TestStatusLinesAreLookedThrough(t *testing.T) {
	res := &http.Response{Status: "200 " + theValue, StatusCode: 200, Header: http.Header{}, Body: http.NoBody}
	if err := (&Applied{needles: newNeedles([]string{theValue})}).Response(res); err != nil || leaks(res.Status) {
		t.Errorf("status %q, %v", res.Status, err)
	}
}

// A pair is used to sign, and its halves are secrets one by one.
func TestTheHalvesOfAnAWSKeyAreHidden(t *testing.T) {
	set, err := Compile([]forage.Binding{{Secret: "aws", Placeholder: awsPlaceholder,
		Uses: []forage.SecretUse{{Hosts: []string{"s3.amazonaws.com"}, Place: forage.PlaceSigV4}}}},
		map[string]secrets.Source{"aws": fixed(awsKey + ":SESSIONSESSIONSESSION")})
	if err != nil {
		t.Fatal(err)
	}
	r := request(t, "https://s3.amazonaws.com/", "Authorization: "+signedInside("us-east-1", "s3"))
	applied, _, err := set.For("s3.amazonaws.com", 443).Apply(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	res := &http.Response{StatusCode: 200, Header: http.Header{"X-A": {awsKey, "SESSIONSESSIONSESSION"}}, Body: body(awsKey + "SESSIONSESSIONSESSION")}
	if err := applied.Response(res); err != nil {
		t.Fatal(err)
	}
	if text := shown(t, res); strings.Contains(text, "SESSION") || strings.Contains(text, "wJalrX") || !strings.Contains(text, "AKIDEXAMPLE") {
		t.Errorf("shown: %s", text)
	}
}

// A redirect is a new request: the secret goes where that leads only if it is bound there.
func TestRedirectsDoNotCarryTheSecret(t *testing.T) {
	elsewhere := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.URL, r.Header)
	}))
	defer elsewhere.Close()
	w := newWorld(t, false, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", elsewhere.URL+"/?was="+url.QueryEscape(r.Header.Get("Authorization")))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	res, err := w.do(t, "GET", nil)
	if err != nil {
		t.Fatal(err)
	}
	to, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	port := elsewhere.Listener.Addr().(*net.TCPAddr).Port
	if w.set.For(to.Hostname(), uint16(port)) != nil {
		t.Error("the secret is bound to where the redirect leads")
	}
	followed, err := elsewhere.Client().Get(to.String())
	if err != nil {
		t.Fatal(err)
	}
	defer followed.Body.Close()
	if text := shown(t, followed); leaks(text) {
		t.Errorf("the other server sees %s", text)
	}
}
