package workspacetest

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"forage"
	"forage/internal/workspace"
)

// Inside is somebody who works in a workspace as a sandbox shows it, with the mounts of the plan. Only the
// workspace is where it is on the host, and not at its target: nothing can be mounted there without root.
type Inside struct {
	*User
	Work   forage.Workspace
	mounts string
}

// NewInside skips the test where mounts can't be had.
func NewInside(u *User, w forage.Workspace) *Inside {
	u.Helper()
	if out, err := exec.Command(enter()[0], append(enter()[1:], "true")...).CombinedOutput(); err != nil {
		u.Skipf("no mount namespace of one's own: %v\n%s", err, out)
	}
	inner := *u
	inner.Env = append([]string{
		"GIT_AUTHOR_NAME=Agent", "GIT_AUTHOR_EMAIL=agent@example.com", "GIT_COMMITTER_NAME=Agent", "GIT_COMMITTER_EMAIL=agent@example.com",
		"JJ_USER=Agent", "JJ_EMAIL=agent@example.com",
	}, "HOME="+Dir(u), "LANG=C.UTF-8", "GIT_CONFIG_NOSYSTEM=1")
	i := &Inside{User: &inner, Work: w}
	if w.Repository != nil {
		var script strings.Builder
		for _, m := range w.Repository.Mounts {
			script.WriteString(i.mount(m))
		}
		i.mounts = script.String()
	}
	return i
}

// enter begins a command in a mount namespace of its own: unshare(1).
func enter() []string {
	argv := []string{"unshare", "--mount", "--propagation", "private"}
	if os.Getuid() != 0 {
		argv = append(argv, "--user", "--map-root-user")
	}
	return append(argv, "--")
}

// mount is one mount as lines of a shell script.
func (i *Inside) mount(m forage.Mount) string {
	target, source := m.Target, quote(m.Source)
	if rest, ok := strings.CutPrefix(target, i.Work.Target); ok {
		target = filepath.Join(i.Work.Path, rest)
	}
	target = quote(target)
	script := "mkdir -p \"$(dirname " + target + ")\"\n"
	if info, err := os.Stat(m.Source); err == nil && info.IsDir() {
		script += "mkdir -p " + target + "\n"
	} else {
		script += "[ -e " + target + " ] || : >" + target + "\n"
	}
	if m.Optional {
		script += "[ -e " + source + " ] && "
	}
	script += "mount --bind " + source + " " + target + "\n"
	if !m.Writable {
		script += "mount -o remount,bind,ro " + target + "\n"
	}
	return script
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// Try runs a shell script in the workspace and returns what it wrote.
func (i *Inside) Try(script string) (string, error) {
	i.Helper()
	whole := "set -e\nmount -t tmpfs none /run\n" + i.mounts + "cd " + quote(i.Work.Path) + "\nset +e\n" + script
	return i.User.Try("/", append(enter(), "sh", "-c", whole)...)
}

// Run runs a shell script of which every command has to succeed.
func (i *Inside) Run(script string) string {
	i.Helper()
	out, err := i.Try("set -e\n" + script)
	if err != nil {
		i.Fatalf("inside: %v\n%s\n%s", err, script, out)
	}
	return out
}

// Commit makes a commit inside, of everything.
func (i *Inside) Commit(file, content string) {
	i.Helper()
	commit := "git add -A && git commit -q -m " + quote("agent: "+file)
	if i.Work.Repository.Kind == forage.RepositoryJJ {
		commit = "jj --quiet commit -m " + quote("agent: "+file)
	}
	i.Run("mkdir -p " + quote(filepath.Dir(file)) + "\nprintf %s " + quote(content) + " >" + quote(file) + "\n" + commit)
}

// Made is a provider with a workspace that it has made.
type Made struct {
	*User
	workspace.Provider
	Places  workspace.Places
	Source  string // as the user names it
	Request workspace.Request
	Work    forage.Workspace
	jj      bool // the work inside is done with jj
}

// background outlives the test's own context, in which nothing can be cleaned up.
func (m *Made) background() context.Context { return context.WithoutCancel(m.Context()) }
