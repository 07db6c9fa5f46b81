package config_test

import (
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

func TestPartsOfAWorkspace(t *testing.T) {
	c := mustLoad(t, `
[templates.x.workspace.mounts.main]
containerPath = "/workspace"
repo = "~/app"
mode = "git-worktree"
branch = "next"
[templates.x.workspace.mounts.beads]
containerPath = "/workspace/.beads"
repo = "~/beads"
mode = "jj"
[templates.x.workspace.mounts.lib]
containerPath = "/deps/lib:ro"
repo = "~/lib"
[templates.x.workspace.mounts.more]
containerPath = "/deps/more"
repo = "git@git.example.com:team/more.git"
mode = "clone"
readOnly = true
`)
	want := []forage.Part{
		{Name: "beads", ContainerPath: "/workspace/.beads", Repo: testHome + "/beads", Mode: forage.WorkspaceJJ},
		{Name: "lib", ContainerPath: "/deps/lib", Repo: testHome + "/lib", Mode: forage.WorkspaceDirect, ReadOnly: true},
		{Name: "main", ContainerPath: "/workspace", Repo: testHome + "/app", Mode: forage.WorkspaceWorktree, Branch: "next"},
		{Name: "more", ContainerPath: "/deps/more", Repo: "git@git.example.com:team/more.git", Mode: forage.WorkspaceClone, ReadOnly: true},
	}
	testdir.Same(t, "", want, c.Templates["x"].Parts)
	if uses := c.Unsupported["x"]; uses != nil {
		t.Errorf("unsupported: %v", uses)
	}
}

// Each mistake is said with the line on which the later of two parts is wrong.
func TestMistakesInParts(t *testing.T) {
	part := func(name string, lines ...string) string {
		return "[templates.x.workspace.mounts." + name + "]\n" + strings.Join(lines, "\n") + "\n"
	}
	a := part("a", "containerPath = '/deps/a'", "repo = '/src/a'")
	for _, test := range []struct{ name, text, want string }{
		{"no repository", part("m", "containerPath = '/a'"), `:1:31: templates.x.workspace.mounts.m: expected containerPath and repo`},
		{"mode", part("m", "containerPath = '/a'", "repo = '/b'", "mode = 'svn'"), `:4:1: templates.x.workspace.mounts.m.mode: "svn": expected direct, git-worktree, jj or clone`},
		{"name", part("'M m'", "containerPath = '/a'", "repo = '/b'"), `expected a name of 1 to 63 of a-z, 0-9 and -`},
		{"branch of a folder", part("m", "containerPath = '/a'", "repo = '/b'", "branch = 'x'"), `:4:1: templates.x.workspace.mounts.m.branch: "x": a direct part`},
		{"no branch", part("m", "containerPath = '/a'", "repo = '/b'", "mode = 'jj'", "branch = ''"), `:5:1: `},
		{"relative", part("m", "containerPath = 'a'", "repo = '/b'"), `:2:1: templates.x.workspace.mounts.m.containerPath: "a": expected an absolute path`},
		{"over what holds ours", part("m", "containerPath = '/run'", "repo = '/b'"), `"/run": /run/forage is Forage's own`},
		{"in a repository's own", part("m", "containerPath = '/workspace/.git/hooks'", "repo = '/b'"), `.git is the repository's own`},
		{"main elsewhere", part("main", "containerPath = '/deps'", "repo = '/b'"), `"/deps": the part called main is the one at /workspace`},
		{"same place, earlier in the alphabet", part("b", "containerPath = '/deps/a'", "repo = '/src/b'") + a, `:5:1: templates.x.workspace.mounts.a.containerPath: "/deps/a": the part b is there already`},
		{"in another", a + part("b", "containerPath = '/deps/a/b'", "repo = '/src/b'"), `:5:1: templates.x.workspace.mounts.b.containerPath: "/deps/a/b" overlaps with the part a, at "/deps/a"`},
		{"same files", a + part("b", "containerPath = '/deps/b'", "repo = '/src/a'"), `:6:1: templates.x.workspace.mounts.b.repo: "/src/a": the part a shows the same files`},
		{"files in files", a + part("b", "containerPath = '/deps/b'", "repo = '/src/a/b'", "readOnly = true"), `:6:1: templates.x.workspace.mounts.b.repo: `},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(t, "config.toml", test.text)
			checkMistake(t, err, "config.toml", test.want)
		})
	}
	for name, text := range map[string]string{
		"beside, with the same beginning": a + part("b", "containerPath = '/deps/a-b'", "repo = '/src/a-b'"),
		"both only read":                  part("a", "containerPath = '/a:ro'", "repo = '/src'") + part("b", "containerPath = '/b:ro'", "repo = '/src'"),
		"a worktree of the same":          a + part("b", "containerPath = '/deps/b'", "repo = '/src/a'", "mode = 'git-worktree'"),
		"in the workspace":                part("main", "containerPath = '/workspace'", "repo = '/src'") + part("b", "containerPath = '/workspace/b'", "repo = '/b'"),
	} {
		t.Run(name, func(t *testing.T) { mustLoad(t, text) })
	}
}
