package acceptance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testdir"
	"forage/internal/testprogram"
	"forage/internal/workspace/workspacetest"
)

// built is forage-ctl for the tests of workspaces, which start it hundreds of times.
var built string

func TestMain(m *testing.M) { os.Exit(testprogram.Main(m, &built)) }

// host is a user with a repository, Forage, and a canary: a folder that only the host has. What
// runs on the host leaves a file in it; inside there is no such folder.
type host struct {
	*workspacetest.User
	base, repo, state, canary string
}

// boxPorts is far more than the most sandboxes that a host has at once.
const boxPorts = 30

func newHost(t *testing.T) *host {
	t.Helper()
	base := workspacetest.Dir(t)
	h := &host{User: workspacetest.NewUser(t), base: base, state: filepath.Join(base, "state"), canary: filepath.Join(base, "canary")}
	h.repo = filepath.Join(base, "src", "repo")
	for _, dir := range []string{h.canary, filepath.Dir(h.repo), filepath.Join(base, "run")} {
		testdir.Must(t, os.Mkdir(dir, 0o700))
	}
	ports := testdir.Ports(t, boxPorts)
	h.Write(base, "config.toml", fmt.Sprintf("portRange = { from = %d, to = %d }\n[templates.box]\nnetwork = \"none\"\n", ports, ports+boxPorts-1))
	h.Env = append(h.Env, "FORAGE_CONFIG="+filepath.Join(base, "config.toml"), "FORAGE_STATE_DIR="+h.state,
		"FORAGE_RUNTIME_DIR="+filepath.Join(base, "run"), "CANARY="+h.canary)
	t.Cleanup(func() {
		if out, err := h.try("down", "--all", "--force"); err != nil {
			t.Errorf("down --all --force: %v\n%s", err, out)
		}
	})
	return h
}

// try runs forage-ctl in the repository.
func (h *host) try(args ...string) (string, error) {
	h.Helper()
	dir := h.repo
	if _, err := os.Stat(dir); err != nil {
		dir = h.base
	}
	return h.Try(dir, append([]string{built}, args...)...)
}

// forage runs forage-ctl, which has to succeed.
func (h *host) forage(args ...string) string {
	h.Helper()
	out, err := h.try(args...)
	if err != nil {
		h.Fatalf("forage-ctl %q: %v\n%s", args, err, out)
	}
	return out
}

// up brings a sandbox up, with an agent that does nothing.
func (h *host) up(name string, m mode) {
	h.Helper()
	h.forage(append(append([]string{"up", name, "-t", "box"}, m.flags(h.repo)...), "--", "sleep", "infinity")...)
}

// inside runs a script in a sandbox. Attacks may fail: what they reach is looked for on the host.
func (h *host) inside(name, script string) string {
	h.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(h.Context()), patience)
	defer cancel()
	out, err := h.Command(ctx, h.repo, built, "exec", name, "--no-tty", "--", "sh", "-c", script).CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		h.Fatalf("exec: %v\n%s", err, out)
	}
	return string(out)
}

// hits are the files that something left in the canary.
func (h *host) hits() []string {
	h.Helper()
	entries, err := os.ReadDir(h.canary)
	if err != nil {
		h.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
		if err := os.Remove(filepath.Join(h.canary, entry.Name())); err != nil {
			h.Fatal(err)
		}
	}
	return names
}

// quiet fails the test when something ran on the host.
func (h *host) quiet(when string) {
	h.Helper()
	if hits := h.hits(); len(hits) > 0 {
		h.Errorf("%s, this ran on the host: %s", when, strings.Join(hits, ", "))
	}
}

// mode is a way of having a workspace, and the repository for it.
type mode struct {
	name string
	flag string
	jj   bool // the repository is jj's, colocated
}

func modes() []mode {
	all := []mode{
		{name: "direct", flag: "-w"}, {name: "git-worktree", flag: "--git-worktree"}, {name: "clone", flag: "--clone"},
		{name: "jj", flag: "--repo", jj: true},
	}
	if testdir.Soak() {
		all = append(all, mode{name: "direct in a jj repository", flag: "-w", jj: true})
	}
	return all
}

func (m mode) flags(repo string) []string { return []string{m.flag, repo} }

// prepare makes the repository.
func (m mode) prepare(h *host) {
	h.Helper()
	if m.jj {
		h.JJ(h.repo, "--colocate")
	} else {
		h.Repository(h.repo)
	}
}

// folder is where the workspace's files are on the host.
func (m mode) folder(h *host, name string) string {
	if m.flag == "-w" {
		return h.repo
	}
	return filepath.Join(h.state, "workspaces", name)
}

// prelude is what attacks begin with: functions for their scripts.
func prelude(attack string, canary string) string {
	return fmt.Sprintf(`CANARY=%s ATTACK=%s
cd /workspace
export GIT_AUTHOR_NAME=Agent GIT_AUTHOR_EMAIL=agent@example.com GIT_COMMITTER_NAME=Agent GIT_COMMITTER_EMAIL=agent@example.com
hit() { printf 'touch %%s; ' "$CANARY/$ATTACK-$1"; }
above() { case $1 in */*) [ -d "${1%%/*}" ] || mkdir -p "${1%%/*}" ;; esac; }
script() { above "$1"; printf '#!/bin/sh\ntouch %%s; \ncat\n' "$CANARY/$ATTACK-$2" >"$1"; chmod +x "$1"; }
# The last value counts, so that adding one sets it. None has a quote or a backslash.
set_in() {
	above "$1"
	key=${2#*.}
	case $key in
	*.*) printf '[%%s "%%s"]\n\t%%s = "%%s"\n' "${2%%%%.*}" "${key%%.*}" "${key##*.}" "$3" >>"$1" ;;
	*) printf '[%%s]\n\t%%s = "%%s"\n' "${2%%%%.*}" "$key" "$3" >>"$1" ;;
	esac
}
`+evilConfig+evilJJ, canary, word(attack))
}

// word is a name as one word for a shell.
func word(name string) string { return strings.ReplaceAll(name, " ", "-") }
