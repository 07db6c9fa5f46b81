package gitproto

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testgit"
)

// packed is a pack with what revs say.
func packed(t *testing.T, r *testgit.Repo, revs string, args ...string) []byte {
	t.Helper()
	pack, messages, err := r.Run([]byte(revs), append([]string{"pack-objects", "-q", "--revs", "--stdout"}, args...)...)
	if err != nil {
		t.Fatalf("git pack-objects: %v\n%s", err, messages)
	}
	return pack
}

// TestServerDecidesWhatIsOld lies about what the server has: the guard believes
// it, and the server, which knows better, doesn't.
func TestServerDecidesWhatIsOld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := testgit.Clone(t, w.url)
	r.Git("checkout", "-q", "-b", "agent/x")
	r.Commit("a", "one")
	r.Git("push", "-q", "origin", "agent/x")
	before := w.server.Refs()
	main := r.Git("rev-parse", "main")
	r.Git("reset", "-q", "--hard", "main")
	other := r.Commit("a", "other")
	pack := packed(t, r, other+"\n^"+main+"\n")

	for name, old := range map[string]string{"nothing": zeros, "another commit": main} {
		body := append(lines(old+" "+other+" refs/heads/agent/x\x00report-status"), pack...)
		answer := w.post(t, body)
		if !strings.Contains(answer, "ng refs/heads/agent/x ") || strings.Contains(answer, "forage") {
			t.Errorf("%s as old: the server answered %q", name, answer)
		}
		if diff := cmp.Diff(before, w.server.Refs()); diff != "" {
			t.Errorf("%s as old: %s", name, diff)
		}
	}
}

// post pushes what git itself wouldn't.
func (w *world) post(t *testing.T, body []byte) string {
	t.Helper()
	res, err := http.Post(w.url+"/git-receive-pack", "application/x-git-receive-pack-request", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(answer)
}
