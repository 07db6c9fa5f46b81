package gitproto

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testgit"
)

// TestScannerFindsCommits compares the commits that are found in packs that
// git makes with those that git says are in them.
func TestScannerFindsCommits(t *testing.T) {
	t.Parallel()
	for _, format := range []format{sha1Format, sha256Format} {
		r := history(t, format)
		tip, middle := r.Git("rev-parse", "HEAD"), r.Git("rev-parse", "HEAD~20")
		for _, args := range [][]string{
			nil,
			{"--delta-base-offset"},
			{"--thin"},
			{"--thin", "--delta-base-offset"},
			{"--no-reuse-delta", "--window=250", "--depth=250", "--delta-base-offset"},
		} {
			t.Run(fmt.Sprint(format.name, args), func(t *testing.T) {
				t.Parallel()
				for _, from := range []string{"", "^" + middle} {
					pack := packed(t, r, tip+"\n"+from+"\n", args...)
					got := found(t, format, pack)
					want := strings.Fields(r.Git(strings.Fields("rev-list " + tip + " " + from)...))
					slices.Sort(want)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("from %q: %s", from, diff)
					}
				}
			})
		}
	}
}

// history is a repository of which git makes packs with deltas among commits: their
// messages are long and alike.
func history(t *testing.T, format format) *testgit.Repo {
	t.Helper()
	w := newWorld(t, "--object-format="+format.name)
	r := testgit.Clone(t, w.url)
	// The same packs each time: what chance finds is for whoever looks for it.
	r.Env = append(r.Env, "GIT_AUTHOR_DATE=1700000000 +0000", "GIT_COMMITTER_DATE=1700000000 +0000")
	r.Git("config", "pack.threads", "1")
	r.Git("checkout", "-q", "--orphan", "alike")
	text := ""
	random := rand.New(rand.NewPCG(1, 2))
	for range 150 {
		text += fmt.Sprintf("%x\n", random.Uint64())
	}
	for i := range 60 {
		r.Git("commit", "-q", "--allow-empty", "-m", fmt.Sprint(i, "\n\n", text))
		if i%10 == 0 {
			r.Commit("file", fmt.Sprint(text, i))
		}
	}
	r.Git("repack", "-q", "-a", "-d", "-f", "--depth=50")
	deltas := 0
	packs, err := filepath.Glob(filepath.Join(r.Dir, ".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("packs are %q, %v", packs, err)
	}
	for line := range strings.SplitSeq(r.Git("verify-pack", "-v", packs[0]), "\n") {
		if fields := strings.Fields(line); len(fields) == 7 && fields[1] == "commit" {
			deltas++
		}
	}
	if deltas < 10 {
		t.Fatalf("the history has %d commits that are deltas, too few for a test", deltas)
	}
	return r
}

// packed is a pack with what revs say.
func packed(t *testing.T, r *testgit.Repo, revs string, args ...string) []byte {
	t.Helper()
	pack, messages, err := r.Run([]byte(revs), append([]string{"pack-objects", "-q", "--revs", "--stdout"}, args...)...)
	if err != nil {
		t.Fatalf("git pack-objects: %v\n%s", err, messages)
	}
	return pack
}

// found are the ids of the commits in a pack, sorted.
func found(t *testing.T, format format, pack []byte) []string {
	t.Helper()
	s := newScanner(newTap(bytes.NewReader(pack)), format, true)
	if err := scan(s); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for name := range s.commits.byID {
		ids = append(ids, hex.EncodeToString([]byte(name)))
	}
	slices.Sort(ids)
	return ids
}

// scan reads a pack to its end, with nothing after it.
func scan(s *scanner) error {
	for {
		s.in.give(make([]byte, 64<<10))
		done, err := s.step()
		if err != nil {
			return err
		}
		if done {
			return s.in.ended()
		}
	}
}

// TestAgreesWithGit changes bytes of packs: what git takes has to be what the
// scanner takes, or the two would see different things in it.
func TestAgreesWithGit(t *testing.T) {
	t.Parallel()
	r := history(t, sha1Format)
	tip := r.Git("rev-parse", "HEAD")
	good := packed(t, r, tip+"\n^"+tip+"~3\n", "--delta-base-offset")
	random := rand.New(rand.NewPCG(3, 4))
	taken := 0
	for i := range 150 {
		pack := bytes.Clone(good[:len(good)-20])
		if i > 0 { // the first stays as it is
			for range 1 + random.IntN(2) {
				pack[8+random.IntN(len(pack)-8)] = byte(random.Uint32())
			}
		}
		pack = checksummed(pack)
		s := newScanner(newTap(bytes.NewReader(pack)), sha1Format, true)
		err := scan(s)
		_, _, errGit := r.Run(pack, "index-pack", "--stdin", "--fix-thin")
		if errGit == nil {
			taken++
		}
		if errGit == nil && err != nil {
			t.Errorf("git takes pack %d, and the scanner says: %v", i, err)
		}
	}
	if taken == 0 {
		t.Error("git took none of the packs: this test tells nothing")
	}
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
