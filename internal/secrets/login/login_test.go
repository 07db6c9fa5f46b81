package login

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"forage"
	"forage/internal/secrets"
	"forage/internal/testdir"
)

var _ secrets.Source = (*Login)(nil)

const (
	oldAccess  = "sk-ant-oat01-old-access"
	oldRefresh = "sk-ant-ort01-old-refresh"
)

func endedClaude(t *testing.T) *world {
	return newWorld(t, forage.LoginClaude, claudeLogin(oldAccess, oldRefresh, start.Add(-time.Hour)))
}

func TestGet(t *testing.T) {
	fresh := realJWT(start.Add(time.Hour), "fresh")
	ended := realJWT(start.Add(-time.Hour), "ended")
	renewed := realJWT(start.Add(240*time.Hour), "access-1")
	tests := []struct {
		name  string
		kind  forage.LoginKind
		file  string
		want  string
		asked int
	}{
		{"claude, good", forage.LoginClaude, claudeLogin("a", "r", start.Add(time.Hour)), "a", 0},
		{"claude, ended", forage.LoginClaude, claudeLogin("a", "r", start.Add(-time.Hour)), "sk-ant-oat01-access-1", 1},
		{"claude, about to end", forage.LoginClaude, claudeLogin("a", "r", start.Add(4*time.Minute)), "sk-ant-oat01-access-1", 1},
		{"claude, a token for a year", forage.LoginClaude, `{"claudeAiOauth":{"accessToken":"a"}}`, "a", 0},
		{"claude, ended for good", forage.LoginClaude, claudeLogin("a", "", start.Add(-time.Hour)), "[the login in FILE has expired, and has no token to renew it with]", 0},
		{"claude, logged out", forage.LoginClaude, `{"claudeAiOauth":{"accessToken":"","refreshToken":"","expiresAt":0}}`, "[the login in FILE: holds no login]", 0},
		{"claude, no login", forage.LoginClaude, `{}`, "[the login in FILE: holds no login]", 0},
		{"not JSON", forage.LoginClaude, `sk-ant-oat01-secret`, "[the login in FILE: is not the JSON that it should be]", 0},
		{"chatgpt, good", forage.LoginChatGPT, chatGPTLogin(fresh, "r"), fresh, 0},
		{"chatgpt, ended", forage.LoginChatGPT, chatGPTLogin(ended, "r"), renewed, 1},
		{"chatgpt, age by the file", forage.LoginChatGPT, chatGPTLogin("opaque", "r"), "opaque", 0},
		{"chatgpt, a key", forage.LoginChatGPT, `{"OPENAI_API_KEY":"sk-x"}`, "[the login in FILE: holds an API key and no login]", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld(t, test.kind, test.file)
			got := strings.ReplaceAll(w.get(), w.path, "FILE")
			testdir.Same(t, "token", test.want, got)
			if again := strings.ReplaceAll(w.get(), w.path, "FILE"); again != got {
				t.Errorf("the second time: %s, the first %s", again, got)
			}
			if asked := len(w.requests()); asked != test.asked {
				t.Errorf("the server was asked %d times, want %d", asked, test.asked)
			}
		})
	}
}

func TestFileMissing(t *testing.T) {
	w := endedClaude(t)
	testdir.Must(t, os.Remove(w.path))
	_, err := w.login.Get(t.Context())
	if !errors.Is(err, os.ErrNotExist) || forage.Hint(err) != "log in on the host with `claude`" {
		t.Errorf("error %v, hint %q", err, forage.Hint(err))
	}
}

// TestWrittenBack holds what the agent on the host finds after a renewal.
func TestWrittenBack(t *testing.T) {
	tests := []struct {
		kind       forage.LoginKind
		file, want string
		asked      map[string]string
	}{
		{
			forage.LoginClaude, claudeLogin(oldAccess, oldRefresh, start.Add(-time.Hour)),
			claudeLogin("sk-ant-oat01-access-1", "sk-ant-ort01-refresh-1", start.Add(8*time.Hour)),
			map[string]string{"grant_type": "refresh_token", "refresh_token": oldRefresh, "client_id": claudeClient,
				"scope": "org:create_api_key user:inference user:profile"},
		},
		{
			forage.LoginChatGPT, chatGPTLogin(realJWT(start.Add(-time.Hour), "ended"), "rt_old"),
			strings.Replace(chatGPTLogin(realJWT(start.Add(240*time.Hour), "access-1"), "rt_refresh-1"),
				"2026-11-20T10:00:00.123456789Z", "2026-11-21T12:00:00Z", 1),
			map[string]string{"grant_type": "refresh_token", "refresh_token": "rt_old", "client_id": chatGPTClient},
		},
	}
	for _, test := range tests {
		t.Run(string(test.kind), func(t *testing.T) {
			w := newWorld(t, test.kind, test.file)
			if err := os.Chmod(w.path, 0o644); err != nil { // as an umask had it
				t.Fatal(err)
			}
			w.get()
			testdir.Same(t, "file", parsed(t, test.want), parsed(t, w.read()))
			testdir.Same(t, "asked", []map[string]string{test.asked}, w.requests())
			info, err := os.Stat(w.path)
			testdir.Must(t, err)
			if info.Mode() != 0o600 {
				t.Errorf("mode %v", info.Mode())
			}
			left, err := filepath.Glob(filepath.Join(filepath.Dir(w.path), "*"))
			if err != nil || len(left) != 1 {
				t.Errorf("beside the file: %v, %v", left, err)
			}
		})
	}
}

func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	found := map[string]any{}
	if err := decoder.Decode(&found); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return found
}

// TestLinkStays: a login file that is a link into the user's dotfiles stays one.
func TestLinkStays(t *testing.T) {
	w := endedClaude(t)
	target := filepath.Join(t.TempDir(), "dotfile")
	testdir.Must(t, os.Rename(w.path, target))
	testdir.Must(t, os.Symlink(target, w.path))
	w.get()
	if link, err := os.Readlink(w.path); err != nil || link != target {
		t.Errorf("the link is now %q, %v", link, err)
	}
	if !strings.Contains(w.read(), "refresh-1") {
		t.Error("the renewed login is not in the file")
	}
}

// TestOneRenewal: many requests in several sandboxes need the login at once.
func TestOneRenewal(t *testing.T) {
	w := endedClaude(t)
	logins := []*Login{w.login, w.open(), w.open()}
	var wait sync.WaitGroup
	got := make([]string, 60)
	for i := range got {
		wait.Go(func() { got[i] = get(logins[i%len(logins)]) })
	}
	wait.Wait()
	for _, token := range got {
		if token != "sk-ant-oat01-access-1" {
			t.Errorf("got %s", token)
		}
	}
	if n := len(w.requests()); n != 1 {
		t.Errorf("the server was asked %d times", n)
	}
}

// TestAgentsLock: while Claude Code renews its login itself, Forage does not.
func TestAgentsLock(t *testing.T) {
	for _, name := range []string{".oauth_refresh.lock", "../agent.lock"} { // the folder is called agent here
		t.Run(filepath.Base(name), func(t *testing.T) {
			w := endedClaude(t)
			lock := filepath.Join(filepath.Dir(w.path), name)
			later := time.Now().Add(time.Hour) // it does not get stale, however slow the machine is
			testdir.Must(t, errors.Join(os.Mkdir(lock, 0o700), os.Chtimes(lock, later, later)))
			got := make(chan string)
			go func() { got <- w.get() }()
			select {
			case token := <-got:
				t.Fatalf("got %s while the agent holds its lock", token)
			case <-time.After(3 * lockPoll): // enough to have failed
			}
			w.write(claudeLogin("by-claude", "r", start.Add(time.Hour)))
			testdir.Must(t, os.Remove(lock))
			if token := <-got; token != "by-claude" || len(w.requests()) != 0 {
				t.Errorf("got %s after %d requests", token, len(w.requests()))
			}
		})
	}
}

func refuse(w http.ResponseWriter, status int, body string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func TestRefused(t *testing.T) {
	const again = ": log in again on the host with `claude`]"
	tests := []struct {
		name, body string
		status     int
		want       string
		final      bool // it is not asked again with the same token
	}{
		{"revoked", `{"error":"invalid_grant","error_description":"` + oldRefresh + `"}`, 400, "(invalid_grant)", true},
		{"OpenAI's form", `{"error":{"code":"refresh_token_expired","message":"` + oldRefresh + `"}}`, 401, "(refresh_token_expired)", true},
		{"Anthropic's form", `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, 429, "(rate_limit_error)", false},
		{"the token echoed", `{"error":"` + oldRefresh + `"}`, 400, "(status 400)", false},
		{"down", `<html>`, 502, "(status 502)", false},
		{"redirected", ``, 307, "(status 307)", false},
		{"no token", `{"access_token":""}`, 200, "(the answer has no token)", false},
		{"a token that writes to a terminal", `{"access_token":"good","refresh_token":"x\u001b]0;y\u0007"}`, 200, "(the answer has no token)", false},
		{"a token that is a header", `{"access_token":"good\r\nX-Y: z"}`, 200, "(the answer has no token)", false},
		{"not JSON", oldRefresh, 200, "(the answer has no token)", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := endedClaude(t)
			before := w.read()
			w.set(func(res http.ResponseWriter) { refuse(res, test.status, test.body) }, nil)
			want := "[the login in " + w.path + " has expired and can't be renewed " + test.want + again
			for range 3 { // at once: the server is asked once
				testdir.Same(t, "error", want, w.get())
			}
			if n := len(w.requests()); n != 1 {
				t.Errorf("the server was asked %d times", n)
			}
			if w.read() != before {
				t.Error("the file has changed")
			}
			w.pass(pause)
			w.get()
			if asked := len(w.requests()) > 1; asked == test.final {
				t.Errorf("asked again after a pause: %v", asked)
			}
			w.set(nil, nil)
			w.write(claudeLogin("new", "new-refresh", start.Add(-time.Minute)))
			if got := w.get(); !strings.HasPrefix(got, "sk-ant-oat01-access-") {
				t.Errorf("after logging in again: %s", got)
			}
		})
	}
}

// TestStillGood: a login that can't be renewed now is used as long as it lasts.
func TestStillGood(t *testing.T) {
	w := newWorld(t, forage.LoginClaude, claudeLogin("some-minutes", "r", start.Add(2*time.Minute)))
	w.set(func(res http.ResponseWriter) { refuse(res, 503, "") }, nil)
	if got := w.get(); got != "some-minutes" {
		t.Errorf("got %s", got)
	}
	w.pass(3 * time.Minute)
	if got := w.get(); !strings.Contains(got, "can't be renewed (status 503)") {
		t.Errorf("when it has ended: %s", got)
	}
}

// TestNotWritable: where the new tokens could not be kept, the old ones are not used up.
func TestNotWritable(t *testing.T) {
	w := endedClaude(t)
	inTheWay := w.path + ".forage"
	if err := os.MkdirAll(filepath.Join(inTheWay, "x"), 0o700); err != nil { // root may write anywhere
		t.Fatal(err)
	}
	if got := w.get(); !strings.Contains(got, "is not renewed because it could not be written back") || len(w.requests()) != 0 {
		t.Errorf("got %s after %d requests", got, len(w.requests()))
	}
}

// TestNoTokenInErrors: whatever goes wrong, however it is printed.
func TestNoTokenInErrors(t *testing.T) {
	w := endedClaude(t)
	for _, body := range []string{oldRefresh, `{"error":"` + oldAccess + `"}`, `{"error":{"code":"` + oldRefresh + `"}}`, `{"error":["` + oldRefresh + `"]}`} {
		w.set(func(res http.ResponseWriter) { refuse(res, 400, body) }, nil)
		w.pass(time.Minute)
		_, err := w.login.Get(t.Context())
		for err != nil {
			text := fmt.Sprintf("%v %+v %#v %s", err, err, err, forage.Hint(err))
			if strings.Contains(text, "old-access") || strings.Contains(text, "old-refresh") {
				t.Errorf("%s: %s", body, text)
			}
			err = errors.Unwrap(err)
		}
	}
}

func TestOpenUnknown(t *testing.T) {
	if _, err := Open(forage.Login{Kind: "other", File: "/x"}, nil, time.Now); !errors.Is(err, forage.ErrUsage) {
		t.Errorf("error %v", err)
	}
}
