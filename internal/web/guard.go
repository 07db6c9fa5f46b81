package web

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"forage"
	"forage/internal/deadline"
	"forage/internal/term"
)

// Bounds on what those who are not logged in may make the board remember or try.
const (
	maxSessions = 64
	maxTried    = 1024
	tries       = 5
	retryAfter  = 10 * time.Second
	maxBody     = 1 << 20
)

// session is who is logged in: a cookie, and a key that the page keeps. The cookie alone is worth
// nothing, since browsers send it to every port of the name: with a certificate, what an agent serves
// may have that name on another one. No other origin reads the key.
type session struct {
	key  string
	made time.Time
}

// Names of what a browser sends.
const (
	keyHeader   = "X-Forage-Key"
	subprotocol = "forage-board"
)

func cookieName(r *http.Request) string {
	_, port, _ := net.SplitHostPort(r.Host)
	return "forage-board-" + port
}

// ServeHTTP checks what is so of every request, whatever it asks for: for whom it is (a name that
// was bound to our address is not ours), and what page it comes from.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='; img-src 'self'; connect-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
		"Referrer-Policy":              "no-referrer",
		"Cache-Control":                "no-store",
		"Cross-Origin-Opener-Policy":   "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin",
		"Permissions-Policy":           "camera=(), microphone=(), geolocation=()",
	} {
		w.Header().Set(name, value)
	}
	connection := http.NewResponseController(w) // who is logged in has other deadlines: inside
	_ = connection.SetReadDeadline(time.Now().Add(deadline.End))
	_ = connection.SetWriteDeadline(time.Now().Add(deadline.Answer))
	if !s.isOurs(r.Host) {
		http.Error(w, notHere, http.StatusMisdirectedRequest)
		return
	}
	origin, safe := r.Header.Values("Origin"), r.Method == http.MethodGet || r.Method == http.MethodHead
	if len(origin) > 1 || len(origin) == 1 && origin[0] != s.scheme()+"://"+r.Host || len(origin) == 0 && !safe {
		http.Error(w, "this request comes from another page", http.StatusForbidden)
		return
	}
	if from := r.Header.Get("Sec-Fetch-Site"); strings.HasPrefix(r.URL.Path, "/api/") && from != "" && from != "same-origin" {
		http.Error(w, "this request comes from another page", http.StatusForbidden)
		return
	}
	s.mux.ServeHTTP(w, r)
}

func (s *Server) scheme() string {
	if s.Certificate != nil {
		return "https"
	}
	return "http"
}

// notHere answers those who ask for another name. It does not say the board's.
const notHere = `This is a Forage board, under another name.

Open the address that "forage-ctl web" printed, as it is. It has a name of its own, which
is new each time. Do not put 127.0.0.1 in its place.

If your browser does not find that name, it does not know names under "localhost":
take another browser, or give the board a certificate ("forage-ctl help web").`

// isOurs says whether a Host header names the board, on any port, since `ssh -L` may lead to it.
func (s *Server) isOurs(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	if s.Certificate != nil {
		return s.Certificate.Leaf.VerifyHostname(name) == nil
	}
	return name == s.name
}

// login takes the token, and answers with a cookie and a key.
func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	address, _, _ := net.SplitHostPort(r.RemoteAddr)
	var given struct{ Token string }
	if !s.mayTry(address, false) {
		w.Header().Set("Retry-After", "10")
		fail(w, http.StatusTooManyRequests, errors.New("too many wrong tokens: wait ten seconds"))
		return
	}
	if !read(w, r, &given) {
		return
	}
	if subtle.ConstantTimeCompare([]byte(given.Token), []byte(s.token)) != 1 {
		s.mayTry(address, true)
		s.Log.Warn("wrong token", "from", address)
		fail(w, http.StatusUnauthorized, errors.New("that is not this board's token"))
		return
	}
	cookie, made := rand.Text(), session{rand.Text(), time.Now()}
	s.mu.Lock()
	if len(s.sessions) >= maxSessions { // the oldest goes
		var oldest [32]byte
		for id, one := range s.sessions {
			if at, ok := s.sessions[oldest]; !ok || one.made.Before(at.made) {
				oldest = id
			}
		}
		delete(s.sessions, oldest)
	}
	s.sessions[sha256.Sum256([]byte(cookie))] = made
	s.mu.Unlock()
	s.Log.Info("logged in", "from", address)
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: cookie, Path: "/api/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.Certificate != nil,
	})
	answer(w, map[string]string{"key": made.key})
}

// mayTry says whether an address may try a token, and counts a wrong one.
func (s *Server) mayTry(address string, wrong bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	limiter := s.tried[address]
	if limiter == nil {
		if !wrong {
			return true
		}
		if len(s.tried) >= maxTried {
			maps.DeleteFunc(s.tried, func(_ string, l *rate.Limiter) bool { return l.Tokens() >= tries })
		}
		if len(s.tried) >= maxTried {
			clear(s.tried)
		}
		limiter = rate.NewLimiter(rate.Every(retryAfter), tries)
		s.tried[address] = limiter
	}
	if wrong {
		return limiter.Allow()
	}
	return limiter.Tokens() >= 1
}

// isIn says whether a request is logged in. A WebSocket brings the key as a
// subprotocol, since browsers let it bring nothing else.
func (s *Server) isIn(r *http.Request) bool {
	cookie, err := r.Cookie(cookieName(r))
	if err != nil {
		return false
	}
	s.mu.Lock()
	known, ok := s.sessions[sha256.Sum256([]byte(cookie.Value))]
	s.mu.Unlock()
	key := r.Header.Get(keyHeader)
	if first, offered, ok := strings.Cut(r.Header.Get("Sec-WebSocket-Protocol"), ","); ok && key == "" && first == subprotocol {
		key = strings.TrimSpace(offered)
	}
	return ok && subtle.ConstantTimeCompare([]byte(key), []byte(known.key)) == 1
}

// inside is a handler for those who are logged in.
func (s *Server) inside(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if !s.isIn(r) {
			fail(w, http.StatusUnauthorized, errors.New("not logged in: open the address that the board printed"))
			return
		}
		connection := http.NewResponseController(w)
		_, _ = connection.SetReadDeadline(time.Time{}), connection.SetWriteDeadline(time.Time{})
		h(w, r)
	}
}

// named is inside for what is about one sandbox.
func (s *Server) named(h func(w http.ResponseWriter, r *http.Request, name string)) http.HandlerFunc {
	return s.inside(func(w http.ResponseWriter, r *http.Request) {
		name := r.PathValue("name")
		if err := forage.CheckName(name); err != nil {
			fail(w, 0, err)
			return
		}
		h(w, r, name)
	})
}

// read reads what a request says; if it can't, it has answered.
func read(w http.ResponseWriter, r *http.Request, into any) bool {
	connection := http.NewResponseController(w)
	_ = connection.SetReadDeadline(time.Now().Add(deadline.Answer))
	defer connection.SetReadDeadline(time.Time{})
	body := http.MaxBytesReader(w, r.Body, maxBody)
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if err == nil {
		_, err = io.Copy(io.Discard, body) // while there is a deadline
	}
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return false
	}
	return true
}

func answer(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the browser may be gone
}

// fail answers with an error. Status 0 is what the kind of error says.
func fail(w http.ResponseWriter, status int, err error) {
	if status == 0 {
		status = http.StatusInternalServerError
		for kind, of := range map[error]int{
			forage.ErrNotFound: http.StatusNotFound, forage.ErrRefused: http.StatusConflict,
			forage.ErrDenied: http.StatusForbidden, forage.ErrUsage: http.StatusBadRequest,
		} {
			if errors.Is(err, kind) {
				status = of
			}
		}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": term.Escape(err.Error()), "hint": term.Escape(forage.Hint(err))})
}
