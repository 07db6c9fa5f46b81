package testgit

import (
	"bufio"
	"io"
	"net/http"
	"net/textproto"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// Server is git's own HTTP server (git-http-backend(1)) over the repositories in a
// folder. It stops nothing: forced updates and deletions are as welcome as anything else. A
// request that is broken off looks to git like one that ends there, which is the
// worst that a server can do.
type Server struct {
	Root string
	// Password is what Basic authentication has to bring, under any name; "" lets everybody in.
	Password string

	home string
	mu   sync.Mutex
	seen []string
}

// NewServer makes a server without repositories.
func NewServer(t testing.TB) *Server {
	t.Helper()
	return &Server{Root: t.TempDir(), home: t.TempDir()}
}

// Repo makes a repository, name being "owner/name.git", with one commit on main, and
// returns it.
func (s *Server) Repo(t testing.TB, name string, initArgs ...string) *Repo {
	t.Helper()
	dir := filepath.Join(s.Root, name)
	r := &Repo{t: t, Dir: s.Root, Env: Environ(s.home)}
	r.Git(append(append([]string{"init", "-q", "--bare", "-b", "main"}, initArgs...), dir)...)
	r.Dir = dir
	r.Git("config", "http.receivepack", "true")
	r.Git("config", "receive.advertisePushOptions", "true")
	r.Git("config", "receive.certNonceSeed", "seed")
	tree := r.Git("mktree")
	r.Git("update-ref", "refs/heads/main", r.Git("commit-tree", "-m", "first", tree))
	return r
}

// Refs is every ref of a repository with what it is at.
func (r *Repo) Refs() string {
	r.t.Helper()
	return r.Git("for-each-ref", "--format=%(refname) %(objectname)")
}

// Seen is the Authorization header of each request.
func (s *Server) Seen() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.seen = append(s.seen, r.Header.Get("Authorization"))
	s.mu.Unlock()
	if _, password, _ := r.BasicAuth(); s.Password != "" && password != s.Password {
		w.Header().Set("WWW-Authenticate", `Basic realm="git"`)
		http.Error(w, "who are you?", http.StatusUnauthorized)
		return
	}
	if err := s.backend(w, r); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

// backend runs git-http-backend for one request, by RFC 3875. net/http/cgi takes no chunked bodies,
// which git sends.
func (s *Server) backend(w http.ResponseWriter, r *http.Request) error {
	cmd := exec.CommandContext(r.Context(), "git", "http-backend")
	cmd.Env = append(Environ(s.home),
		"GIT_PROJECT_ROOT="+s.Root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=agent", "REMOTE_ADDR=127.0.0.1",
		"PATH_INFO="+r.URL.Path, "QUERY_STRING="+r.URL.RawQuery, "REQUEST_METHOD="+r.Method,
		"CONTENT_TYPE="+r.Header.Get("Content-Type"), "HTTP_CONTENT_ENCODING="+r.Header.Get("Content-Encoding"),
		"GIT_PROTOCOL="+r.Header.Get("Git-Protocol"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(stdin, r.Body) // broken off or not, git then sees its end
		_ = stdin.Close()
	}()
	answer := bufio.NewReader(stdout)
	err = s.answer(w, answer)
	_, _ = io.Copy(io.Discard, answer)
	_ = cmd.Wait() // what git had to say, it has said
	return err
}

func (s *Server) answer(w http.ResponseWriter, out *bufio.Reader) error {
	head, err := textproto.NewReader(out).ReadMIMEHeader()
	if err != nil {
		return err
	}
	status := http.StatusOK
	if text, _, _ := strings.Cut(head.Get("Status"), " "); text != "" {
		if status, err = strconv.Atoi(text); err != nil {
			return err
		}
	}
	head.Del("Status")
	for key, values := range head {
		w.Header()[key] = values
	}
	w.WriteHeader(status)
	_, _ = io.Copy(w, out)
	return nil
}
