package gitrepo

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"forage/internal/testgit"
)

// TestAttacksOnImport: whatever is in the private metadata, the host's branch stays where it was,
// its repository sound, and nothing of what was planted is in it.
func TestAttacksOnImport(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	t.Run("attacks", func(t *testing.T) {
		for _, attack := range slices.Concat(treeAttacks(), objectAttacks(), otherRepositoryAttacks(), refAttacks(), waitAttacks(), bombs()) {
			t.Run(attack.name, func(t *testing.T) {
				b := newBox(t, host, strings.Map(plain, attack.name))
				planted := attack.do(t, b)
				b.shared = true
				t.Parallel()
				began := time.Now()
				update, err := Import(t.Context(), b.work, b.scratch)
				t.Logf("%v after %v", err, time.Since(began))
				if update.After != update.Before || b.branch() != b.work.Base {
					t.Errorf("the branch moved: %+v", update)
				}
				if planted != "" && b.has(planted) {
					t.Errorf("%s is in the host's repository", planted)
				}
				// What can't be imported is not called saved either.
				if status, err := Unsaved(t.Context(), b.work, b.scratch); err == nil && !status.Unsaved() {
					t.Errorf("nothing unsaved: %+v", status)
				}
				b.clean()
			})
		}
	})
	if out, messages, err := host.Run(nil, "fsck", "--full", "--strict", "--no-dangling"); err != nil {
		t.Errorf("the host's repository: %v\n%s%s", err, out, messages)
	}
}

// TestNothingIsPutOverTheUsersObjects: of two files of one name the user's stays.
func TestNothingIsPutOverTheUsersObjects(t *testing.T) {
	t.Parallel()
	host := newHost(t)
	r, err := Open(t.Context(), host.Dir)
	must(t, err)
	s, err := r.quarantine(filepath.Join(t.TempDir(), "scratch"))
	must(t, err)
	commit := host.Git("rev-parse", "HEAD")
	name := filepath.Join(commit[:2], commit[2:])
	fresh := filepath.Join("00", strings.Repeat("0", 38))
	for _, file := range []string{name, fresh} {
		write(t, filepath.Join(s.passing, file), "the agent's")
	}
	must(t, s.admit())
	must(t, s.Close())
	if _, err := os.Stat(filepath.Join(r.Common, "objects", fresh)); err != nil {
		t.Errorf("a new object has not come: %v", err)
	}
	if got := host.Git("cat-file", "-t", commit); got != "commit" {
		t.Errorf("the user's object was replaced: %q", got)
	}
}

// plain makes a name of a text.
func plain(r rune) rune {
	if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
		return r
	}
	return '-'
}

// TestImportIgnoresWhatIsNotTheBranch: what is odd in the metadata does not keep good commits from
// being imported.
func TestImportIgnoresWhatIsNotTheBranch(t *testing.T) {
	t.Parallel()
	for name, plant := range map[string]func(b *box){
		"evil names":    func(b *box) { write(t, b.path("refs/heads/--upload-pack=x"), "nothing") },
		"a lock":        func(b *box) { write(t, b.path("refs/heads", b.work.Branch+".lock"), "") },
		"configuration": func(b *box) { write(t, b.path("config"), "[core]\n\tfsmonitor = touch "+b.path("ran")+"\n") },
		"a commit-graph, a multi-pack-index and a promisor": func(b *box) {
			for _, file := range []string{"objects/info/commit-graph", "objects/pack/multi-pack-index", "objects/pack/pack-x.promisor", "objects/pack/pack-x.keep"} {
				write(b.t, b.path(file), "garbage")
			}
		},
		"a replaced object":  func(b *box) { write(b.t, b.path("refs/replace", b.work.Base), strings.Repeat("12", 20)+"\n") },
		"a FIFO in refs":     func(b *box) { must(b.t, unix.Mkfifo(b.path("refs/heads/pipe"), 0o600)) },
		"hooks":              func(b *box) { write(b.t, b.path("hooks/reference-transaction"), "#!/bin/sh\ntouch "+b.path("ran")) },
		"http-alternates":    func(b *box) { write(b.t, b.path("objects/info/http-alternates"), "http://127.0.0.1:1/\n") },
		"a damaged old pack": func(b *box) { write(b.t, b.path("objects/pack/pack-"+strings.Repeat("2", 40)+".pack"), "PACK") },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, newHost(t), "box")
			tip := b.inside.Commit("c", "three\n")
			plant(b)
			if update := b.importIt(); update.After != tip || b.branch() != tip {
				t.Errorf("got %+v, want %s", update, tip)
			}
			if _, err := os.Stat(b.path("ran")); err == nil {
				t.Error("something that came from inside ran on the host")
			}
			b.sound()
		})
	}
}

func TestImportFromAShallowRepository(t *testing.T) {
	t.Parallel()
	origin := newHost(t)
	host := testgit.Clone(t, "file://"+origin.Dir, "--depth=1")
	b := newBox(t, host, "box")
	tip := b.inside.Commit("c", "three\n")
	if update := b.importIt(); update.After != tip {
		t.Errorf("got %+v, want %s", update, tip)
	}
	if status := b.unsaved(); status.CommitsCount != 1 {
		t.Errorf("got %+v, want one commit", status)
	}
	b.sound()
}

// TestImportWhileEverythingIsExchanged: folders turn into links to another repository of the
// user's, and back, while they are read. Its objects don't come along.
func TestImportWhileEverythingIsExchanged(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	other := newHost(t)
	secret := other.Commit("secret", "of another repository\n")
	otherGit := filepath.Join(other.Dir, ".git")
	links := t.TempDir()
	for name, target := range map[string]string{"objects": "objects", "refs": "refs"} {
		must(t, os.Symlink(filepath.Join(otherGit, target), filepath.Join(links, name)))
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	for _, name := range []string{"objects", "refs"} {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					_ = unix.Renameat2(unix.AT_FDCWD, b.path(name), unix.AT_FDCWD, filepath.Join(links, name), unix.RENAME_EXCHANGE)
				}
			}
		})
	}
	// Inside, the branch is at the secret, whose objects are behind the link.
	write(t, filepath.Join(otherGit, "refs/heads", b.work.Branch), secret+"\n")
	for range 15 {
		_, _ = Import(t.Context(), b.work, b.scratch)
		_, _ = Unsaved(t.Context(), b.work, b.scratch)
	}
	close(done)
	wg.Wait()
	if b.has(secret) || b.branch() != b.work.Base {
		t.Errorf("objects of another repository came along, and the branch is at %s", b.branch())
	}
	b.sound()
}

// TestAJailSeesNothingThatALinkLeadsTo: who is inside puts a link in the place of the objects when
// these have been looked at, first to a folder that has both, and then to the objects of a
// repository that the sandbox has nothing to do with.
func TestAJailSeesNothingThatALinkLeadsTo(t *testing.T) {
	t.Parallel()
	b := newBox(t, newHost(t), "box")
	other := newHost(t)
	secret := other.Git("rev-parse", "HEAD")
	r, err := Open(t.Context(), b.host.Dir)
	must(t, err)
	s, err := r.Shadow(b.scratch)
	must(t, err)
	defer s.Close()
	ask, err := s.inside(b.path())
	must(t, err)
	link := func(to string) {
		must(t, errors.Join(os.RemoveAll(b.path("objects")), os.Symlink(to, b.path("objects"))))
	}
	link(filepath.Dir(t.TempDir())) // which all folders of this test are below
	ask.Args = append(ask.Args, "cat-file", "-t", secret)
	var said strings.Builder
	ask.Stdout = &said
	link(filepath.Join(other.Dir, ".git/objects"))
	if err := ask.Run(t.Context()); err == nil || said.Len() > 0 {
		t.Errorf("%v, and the other repository's commit is a %q", err, said.String())
	}
}
