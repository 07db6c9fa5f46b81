package gitrepo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/testgit"
)

func TestURLsHoldNothingSecret(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://github.com/o/r.git":                    "https://github.com/o/r.git",
		"https://token@github.com/o/r.git":              "https://github.com/o/r.git",
		"https://user:token@github.com/o/r.git":         "https://github.com/o/r.git",
		"https://h/o/r?access_token=x#y":                "https://h/o/r",
		"http://user:p%40ss@h:8080/r":                   "http://h:8080/r",
		"ssh://git:secret@h:22/o/r":                     "ssh://git@h:22/o/r",
		"git+ssh://git:secret@h/o/r":                    "git+ssh://git@h/o/r",
		"git@github.com:o/r.git":                        "git@github.com:o/r.git",
		"/srv/repo":                                     "/srv/repo",
		"../repo":                                       "../repo",
		"ext::sh -c x":                                  "",
		"https://user:pa%zzss@h/r":                      "",
		"https://user:pa ss@h/r":                        "",
		"codecommit::eu-west-1://user:secret@repo":      "",
		"user:secret@host:path":                         "",
		"https::https://user:secret@h/r":                "",
		"file:///srv/repo":                              "file:///srv/repo",
		"https://user:secret@h/r\nhttps://user:p@evil/": "",
	} {
		if got := publicURL(address); got != want {
			t.Errorf("%q became %q, want %q", address, got, want)
		}
	}
}

// host is a repository with what private metadata has to deal with.
func host(t *testing.T) (*testgit.Repo, *Repository) {
	t.Helper()
	repo := testgit.Init(t, t.TempDir())
	repo.Commit("a.txt", "one\n")
	repo.Git("branch", "packed")
	repo.Git("tag", "-a", "-m", "annotated", "v1")
	repo.Git("pack-refs", "--all")
	repo.Commit("a.txt", "two\n")
	repo.Git("tag", "-a", "-m", "loose", "v2")
	repo.Git("remote", "add", "origin", "https://user:hunter2@example.invalid/r.git")
	repo.Git("update-ref", "refs/remotes/origin/main", "HEAD")
	repo.Git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/remotes/origin/main")
	repo.Git("config", "http.extraHeader", "Authorization: hunter2")
	repo.Git("config", "url.https://hunter2@example.invalid/.insteadOf", "x:")
	repo.Git("config", "branch.main.remote", "origin")
	repo.Git("config", "branch.main.merge", "refs/heads/main")
	repo.Git("config", "user.email", "project@example.com")
	writeText(t, filepath.Join(repo.Dir, "a.txt"), "stashed\n")
	repo.Git("stash")
	repo.Git("update-ref", "refs/forage/recovery/x", "HEAD")
	writeText(t, filepath.Join(repo.Dir, ".git/info/exclude"), "*.local\n")
	r, err := Open(t.Context(), repo.Dir)
	if err != nil {
		t.Fatal(err)
	}
	return repo, r
}

func writeText(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// private makes private metadata, and returns git in it as it is on the host: with the host's
// objects where they are.
func private(t *testing.T, repo *testgit.Repo, r *Repository) (dir string, git func(args ...string) string) {
	t.Helper()
	repository, err := r.PlanPrivate(Layout{Dir: filepath.Join(t.TempDir(), "box/main"), Part: "main", Target: "/workspace"}, r.Head)
	if err != nil {
		t.Fatal(err)
	}
	base, err := StartOf(t.Context(), r, "", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	err = CreatePrivate(t.Context(), r, Private{
		Repository: *repository, Branch: r.Head, Base: base, Index: filepath.Join(r.GitDir, "index"), Remotes: true, Scratch: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(repository.Dir, "git")
	inside := *repo
	inside.Env = append(slices.Clone(repo.Env), "GIT_DIR="+dir, "GIT_WORK_TREE="+repo.Dir, "GIT_ALTERNATE_OBJECT_DIRECTORIES="+filepath.Join(r.Common, "objects"))
	return dir, inside.Git
}

func TestPrivateMetadataIsTheHostsWithoutItsSecrets(t *testing.T) {
	t.Parallel()
	repo, r := host(t)
	dir, git := private(t, repo, r)
	var want []string
	for line := range strings.Lines(repo.Git("for-each-ref", "--format=%(refname) %(objectname) %(symref)") + "\n") {
		if !strings.HasPrefix(line, "refs/stash") && !strings.HasPrefix(line, "refs/forage") {
			want = append(want, strings.TrimSpace(line))
		}
	}
	got := strings.Split(git("for-each-ref", "--format=%(refname) %(objectname) %(symref)"), "\n")
	for i := range got {
		got[i] = strings.TrimSpace(got[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refs (-host +private):\n%s", diff)
	}
	if got, want := git("show-ref", "--dereference", "--tags"), repo.Git("show-ref", "--dereference", "--tags"); got != want {
		t.Errorf("tags are %s, want %s", got, want)
	}
	writeText(t, filepath.Join(repo.Dir, "x.local"), "ignored\n")
	if got := git("status", "--porcelain", "--branch"); got != "## main...origin/main" {
		t.Errorf("status: %q", got)
	}
	if got := git("config", "user.email"); got != "project@example.com" {
		t.Errorf("user.email is %q", got)
	}
	if got := git("remote", "get-url", "origin"); got != "https://example.invalid/r.git" {
		t.Errorf("origin is %q", got)
	}
	if alternates, _ := os.ReadFile(filepath.Join(dir, "objects/info/alternates")); string(alternates) != "/run/repositories/main/objects\n" {
		t.Errorf("alternates: %q", alternates)
	}
	err := filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "hunter2") {
			t.Errorf("%s holds a secret", path)
		}
		if info, err := entry.Info(); err != nil || entry.Name() != "index" && info.Mode().Perm()&0o077 != 0 { // git wrote the index
			t.Errorf("%s: %v (%v), want it for its owner alone", path, info.Mode(), err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	git("fsck", "--strict")
}

func TestMountsCoverWhatNamesPathsOfTheHost(t *testing.T) {
	t.Parallel()
	layout := Layout{
		Dir: "/state/box/main", Part: "main", Target: "/workspace", Pointer: true,
		Objects: []ObjectDir{{"/repo/.git/objects", true}, {"/other/objects", false}},
	}
	want := []forage.Mount{
		{Source: "/repo/.git/objects", Target: "/run/repositories/main/objects"},
		{Source: "/state/box/main/alternates", Target: "/run/repositories/main/objects/info/alternates"},
		{Source: "/other/objects", Target: "/run/repositories/main/objects.1"},
		{Source: "/state/box/main/git", Target: "/run/repositories/main/git", Writable: true},
		{Source: "/state/box/main/pointer", Target: "/workspace/.git"},
	}
	if diff := cmp.Diff(want, layout.Mounts()); diff != "" {
		t.Error(diff)
	}
	layout.ReadOnly = true
	for _, m := range layout.Mounts() {
		if m.Writable {
			t.Errorf("%s of a read-only workspace is writable", m.Target)
		}
	}
}

// TestTagsOutliveTheHosts: a tag that the user deletes and collects stays one inside.
func TestTagsOutliveTheHosts(t *testing.T) {
	t.Parallel()
	repo, r := host(t)
	repository, err := r.PlanPrivate(Layout{Dir: filepath.Join(t.TempDir(), "box/main"), Part: "main", Target: "/workspace", Host: true}, r.Head)
	must(t, err)
	must(t, CreatePrivate(t.Context(), r, Private{Repository: *repository, Branch: "forage-box", Base: repo.Git("rev-parse", "HEAD"), Scratch: t.TempDir()}))
	repo.Git("tag", "-d", "v1", "v2")
	repo.Git("branch", "-D", "packed")
	repo.Git("reflog", "expire", "--expire=now", "--all")
	repo.Git("gc", "-q", "--prune=now")
	inside := *repo
	inside.Env = append(slices.Clone(repo.Env), "GIT_DIR="+filepath.Join(repository.Dir, "git"), "GIT_ALTERNATE_OBJECT_DIRECTORIES="+
		filepath.Join(r.Common, "objects")+":"+filepath.Join(repository.Dir, "host/objects"))
	if kind := inside.Git("cat-file", "-t", "v1"); kind != "tag" {
		t.Errorf("the tag is a %s", kind)
	}
	inside.Git("fsck", "--connectivity-only")
}
