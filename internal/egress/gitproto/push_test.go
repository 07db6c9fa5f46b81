package gitproto

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testgit"
)

// TestPush pushes with the real git to git's real server, which itself would
// take everything.
func TestPush(t *testing.T) {
	t.Parallel()
	// Every case begins with agent/old at one commit more than main, both on the server.
	for _, tt := range []struct {
		name    string
		prepare func(r *testgit.Repo)
		push    []string
		refused []string // what git shows; none: the push is done
		ways    bool     // in chunks and with SHA-256, too
	}{
		{name: "a new branch",
			prepare: func(r *testgit.Repo) { r.Commit("a", "new") }, push: []string{"HEAD:refs/heads/agent/new"}},
		{name: "a branch moves forward",
			prepare: func(r *testgit.Repo) { r.Commit("a", "new") }, push: []string{"HEAD:agent/old"}},
		{name: "a branch at a commit that the server has",
			push: []string{"main:refs/heads/agent/new"}},
		{name: "several refs, tags among them", ways: true,
			prepare: func(r *testgit.Repo) {
				r.Commit("a", "new")
				r.Git("tag", "v1")
				r.Git("tag", "-a", "-m", "two", "v2")
			}, push: []string{"--atomic", "HEAD:agent/old", "HEAD:refs/heads/agent/new", "v1", "v2"}},
		{name: "main",
			prepare: func(r *testgit.Repo) { r.Commit("a", "new") }, push: []string{"HEAD:main"},
			refused: []string{
				"! [remote rejected] HEAD -> main (forage: not among the refs that this sandbox may push to)",
				"remote: forage: this sandbox may push to agent/*, refs/tags/v*",
			}},
		{name: "main and another", ways: true,
			prepare: func(r *testgit.Repo) { r.Commit("a", "new") }, push: []string{"HEAD:main", "HEAD:refs/heads/agent/new"},
			refused: []string{
				"! [remote rejected] HEAD -> main (forage: not among the refs that this sandbox may push to)",
				"! [remote rejected] HEAD -> agent/new (forage: refused with another ref of this push)",
			}},
		{name: "a branch in other case",
			push:    []string{"HEAD:refs/heads/Agent/new"},
			refused: []string{"! [remote rejected] HEAD -> Agent/new (forage: not among"}},
		{name: "a ref for review",
			push:    []string{"HEAD:refs/for/main"},
			refused: []string{"! [remote rejected] HEAD -> refs/for/main (forage: not among"}},
		{name: "deletion",
			push:    []string{"--delete", "agent/old"},
			refused: []string{"! [remote rejected] agent/old (forage: this sandbox may not delete refs)"}},
		{name: "deletion beside an update",
			push:    []string{":agent/old", "HEAD:refs/heads/agent/new"},
			refused: []string{"agent/old (forage: this sandbox may not delete refs)", "agent/new (forage: refused with another ref"}},
		{name: "forced to another history", // the commands don't say so
			prepare: func(r *testgit.Repo) { r.Git("reset", "-q", "--hard", "main"); r.Commit("a", "other") },
			push:    []string{"--force", "HEAD:agent/old"}},
		{name: "everything, as a mirror",
			push:    []string{"--mirror"},
			refused: []string{"(forage: "}},
		{name: "push options", ways: true,
			push:    []string{"-o", "merge_request.create", "HEAD:refs/heads/agent/new"},
			refused: []string{"-> agent/new (forage: push options (git push -o) are not allowed: a server acts on them)"}},
		{name: "signed", ways: true,
			prepare: func(r *testgit.Repo) {
				signer := filepath.Join(r.Dir, "..", "sign")
				script := "#!/bin/sh\ncat >/dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\necho '-----BEGIN PGP SIGNATURE-----'\n"
				if err := os.WriteFile(signer, []byte(script), 0o755); err != nil {
					t.Fatal(err)
				}
				r.Git("config", "gpg.program", signer)
			},
			push:    []string{"--signed", "HEAD:refs/heads/agent/new"},
			refused: []string{"remote unpack failed: forage: it is signed (git push --signed), and what it signs can't be judged"}},
	} {
		for _, mode := range []struct {
			name   string
			config []string
			init   []string
		}{
			{name: "whole"},
			{name: "in chunks", config: []string{"-c", "http.postBuffer=1"}},
			{name: "sha256", init: []string{"--object-format=sha256"}},
		} {
			if mode.name != "whole" && !tt.ways {
				continue
			}
			t.Run(tt.name+"/"+mode.name, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, mode.init...)
				r := testgit.Clone(t, w.url)
				r.Git("checkout", "-q", "-b", "agent/old")
				r.Commit("a", "old")
				r.Git("push", "-q", "origin", "agent/old")
				if tt.prepare != nil {
					tt.prepare(r)
				}
				before := w.server.Refs()

				args := slices.Concat(mode.config, []string{"push"}, options(tt.push), []string{"origin"}, refs(tt.push))
				_, messages, err := r.Run(nil, args...)
				if chunked := w.chunked.Load(); chunked != (mode.config != nil) {
					t.Errorf("the push came in chunks: %v", chunked)
				}

				if (err == nil) != (tt.refused == nil) {
					t.Errorf("git push: %v\n%s", err, messages)
				}
				for _, want := range tt.refused {
					if !strings.Contains(messages, want) {
						t.Errorf("git doesn't show %q but\n%s", want, messages)
					}
				}
				after := w.server.Refs()
				if changed := before != after; changed != (tt.refused == nil) {
					t.Errorf("refs before and after:\n%s", cmp.Diff(before, after))
				}
				if tt.refused == nil {
					r.Git("fetch", "-q")
					w.server.Git("fsck", "--strict")
				}
			})
		}
	}
}

// options and refs are what goes before and after the name of the remote.
func options(push []string) []string {
	n := len(push) - len(refs(push))
	return push[:n]
}

func refs(push []string) []string {
	for i := 0; i < len(push); i++ {
		switch {
		case push[i] == "-o":
			i++
		case !strings.HasPrefix(push[i], "-"):
			return push[i:]
		}
	}
	return nil
}

// TestPushFromShallowClone pushes from a clone that has no parents of its first commit.
func TestPushFromShallowClone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := testgit.Clone(t, w.url)
	full.Git("checkout", "-q", "-b", "agent/old")
	for i := range 3 {
		full.Commit("a", fmt.Sprint(i))
	}
	full.Git("push", "-q", "origin", "agent/old")

	r := testgit.Clone(t, w.url, "--depth=1", "-b", "agent/old")
	r.Commit("a", "from the shallow clone")
	r.Git("push", "-q", "origin", "agent/old")
	r.Git("push", "-q", "origin", "HEAD:refs/heads/agent/new")
	if !strings.Contains(string(w.lastPush()), "shallow ") {
		t.Error("the clone is not shallow: the push says nothing of it")
	}
	if got, want := w.server.Git("rev-parse", "agent/old"), r.Git("rev-parse", "HEAD"); got != want {
		t.Errorf("agent/old is at %s, want %s", got, want)
	}
}
