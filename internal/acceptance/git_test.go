package acceptance

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage/internal/testdir"
	"forage/internal/testgit"
)

const gitHost = "git.example.com"

// gitSteps is what the agent does: each step writes NAME.out, and its exit status to NAME.status.
// The workspace is the folder that it begins in.
const gitSteps = `
out=$PWD
step() { name=$1; shift; "$@" >"$out/$name.out" 2>&1 </dev/null; echo $? >"$out/$name.status"; }
commit() { echo "$1" >>file && git add file && git -c user.name=Agent -c user.email=agent@example.com commit -q -m "$1"; }

step clone git clone https://git.example.com/acme/app.git app
cd app || exit
git checkout -q -b agent/x && commit one
step push git push origin agent/x
commit two
step forward git push origin agent/x
step main git push origin HEAD:main
step delete git push --delete origin agent/x
step option git push -o ci.skip origin HEAD:refs/heads/agent/option

cd ..
step ssh-clone git clone git@git.example.com:acme/app.git ssh-app
cd ssh-app || exit
git checkout -q -b agent/large && head -c 3000000 /dev/urandom >large && git add large && commit large
step ssh-push git push ssh://git@git.example.com/acme/app agent/large
echo again >>large && git add large && commit again
head -c 3000000 /dev/urandom >large && git add large && commit more
step large-main git push origin HEAD:main
step large-main-1 git -c http.version=HTTP/1.1 push origin HEAD:main

step other git clone https://git.example.com/acme/other.git
step web curl -sS --fail-with-body https://git.example.com/acme/app.git/HEAD
step own git -c http.extraHeader="Authorization: Basic bXk6b3du" ls-remote origin

zero=0000000000000000000000000000000000000000
post() { path=$1; shift; curl -sS --path-as-is -H "Content-Type: application/x-git-receive-pack-request" --data-binary @"$out/bad" "$@" "https://git.example.com$path"; }
printf '0074%s %s refs/heads/main\0report-status\n0000' "$(git rev-parse origin/main)" "$zero" >"$out/bad"
step encoded post /acme/app/git-receive-pack -H "Content-Encoding: gzip"
for path in /acme/app.git/%67it-receive-pack /acme/app.git//git-receive-pack /acme/app.git/./git-receive-pack \
	/acme/other.git/../app.git/git-receive-pack '/acme/app.git/git-receive-pack;x' /acme/app.git/git-receive-pack/ /acme/app.git/GIT-RECEIVE-PACK; do
	post "$path"
	post "$path" -X PUT
	post "$path?service=git-upload-pack"
done >"$out/paths.out" 2>&1
echo 0 >"$out/paths.status"

step seen sh -c 'env; cat /etc/gitconfig; git config --list; GIT_TRACE_REDACT=0 GIT_TRACE_CURL=1 git ls-remote origin; printf "protocol=https\nhost=git.example.com\n\n" | git credential fill; true'
`

// TestGit clones and pushes with the real git inside, to git's own server under a name
// that a secret is bound to, with the secret put in outside.
func TestGit(t *testing.T) {
	t.Parallel()
	const token = "forge-0123456789-acceptance-test"
	server := testgit.NewServer(t)
	server.Password = token
	app := server.Repo(t, "acme/app.git")
	other := server.Repo(t, "acme/other.git")
	mainBefore, otherBefore := app.Git("rev-parse", "main"), other.Refs()
	addr, caFile := serveTLS(t, gitHost, server)
	tokenFile := filepath.Join(t.TempDir(), "token")
	testdir.Must(t, os.WriteFile(tokenFile, []byte(token+"\n"), 0o600))
	forage := newProgram(t, fmt.Sprintf(`
[network]
resolve = { "%[1]s:443" = %[2]q }
upstreamCA = %[3]q

[secrets.forge]
file = %[4]q
hosts = [%[1]q]
user = "x-access-token"

[templates.git]
network = "restricted"
secrets = ["forge"]

[[templates.git.rules]]
host = %[1]q
git = { repos = ["acme/app"], push = ["agent/*"] }
`, gitHost, addr, caFile, tokenFile), "")
	project := t.TempDir()

	forage.run("run", "-t", "git", "-w", project, "--name", "acceptance-git", "--", "sh", "-c", gitSteps)

	for _, tt := range []struct {
		step  string
		fails bool
		shows string
	}{
		{step: "clone"},
		{step: "push", shows: "* [new branch]      agent/x -> agent/x"},
		{step: "forward", shows: "agent/x -> agent/x"},
		{step: "ssh-clone"},
		{step: "ssh-push", shows: "* [new branch]      agent/large -> agent/large"},
		{step: "main", fails: true, shows: "! [remote rejected] HEAD -> main (forage: not among the refs that this sandbox may push to)"},
		{step: "large-main", fails: true, shows: "! [remote rejected] HEAD -> main (forage: not among the refs that this sandbox may push to)"},
		{step: "large-main-1", fails: true, shows: "! [remote rejected] HEAD -> main (forage: not among the refs that this sandbox may push to)"},
		{step: "encoded", shows: "forage: denied"},
		{step: "paths", shows: "forage: denied"},
		{step: "delete", fails: true, shows: "! [remote rejected] agent/x (forage: this sandbox may not delete refs)"},
		{step: "option", fails: true, shows: "(forage: push options (git push -o) are not allowed"},
		{step: "other", fails: true, shows: "403"},
		{step: "web", fails: true, shows: "forage: denied"},
		{step: "own"},
		{step: "seen", shows: "https://git.example.com/"},
	} {
		shown := readStep(t, project, tt.step+".out")
		failed := strings.TrimSpace(readStep(t, project, tt.step+".status")) != "0"
		if failed != tt.fails || !strings.Contains(shown, tt.shows) {
			t.Errorf("%s: failed is %v, want %v; it shows, want %q:\n%s", tt.step, failed, tt.fails, tt.shows, shown)
		}
		if strings.Contains(shown, token) || strings.Contains(shown, encoded(token)) {
			t.Errorf("%s shows the token:\n%s", tt.step, shown)
		}
	}

	checkCommitted(t, app, "agent/x", "two", 3)
	checkCommitted(t, app, "agent/large", "large", 2)
	if got := app.Git("rev-parse", "main"); got != mainBefore {
		t.Errorf("main moved from %s to %s", mainBefore, got)
	}
	if got := app.Git("for-each-ref", "--format=%(refname)"); got != "refs/heads/agent/large\nrefs/heads/agent/x\nrefs/heads/main" {
		t.Errorf("the server has the refs\n%s", got)
	}
	if got := other.Refs(); got != otherBefore {
		t.Errorf("the other repository changed to\n%s", got)
	}
	for _, header := range server.Seen() {
		if header != "Basic "+encoded(token) {
			t.Errorf("the server was asked with %q, want the token of the host", header)
		}
	}
	checkGitAudit(t, forage, token)
}

func encoded(token string) string {
	return base64.StdEncoding.EncodeToString([]byte("x-access-token:" + token))
}

func readStep(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Errorf("the agent didn't get that far: %v", err)
	}
	return string(text)
}

// checkCommitted checks a branch's last commit, and how many it has.
func checkCommitted(t *testing.T, r *testgit.Repo, branch, subject string, commits int) {
	t.Helper()
	want := fmt.Sprintf("%s %d", subject, commits)
	if got := r.Git("log", "-1", "--format=%s", branch) + " " + r.Git("rev-list", "--count", branch); got != want {
		t.Errorf("%s is at %q, want %q", branch, got, want)
	}
}

// checkGitAudit looks for what was refused, and why, and for the token.
func checkGitAudit(t *testing.T, forage *program, token string) {
	t.Helper()
	wanted := map[string]bool{
		"push refused: refs/heads/main: not among":     false,
		"push refused: refs/heads/agent/x: this sandb": false,
		"header authorization":                         false, // that the agent brought
	}
	for _, event := range forage.auditEvents("acceptance-git") {
		for want := range wanted {
			wanted[want] = wanted[want] || strings.Contains(event.Reason, want)
		}
		if line := fmt.Sprintf("%+v", event); strings.Contains(line, token) {
			t.Errorf("the audit log has the token: %s", line)
		}
	}
	for want, found := range wanted {
		if !found {
			t.Errorf("the audit log has nothing about %q", want)
		}
	}
}
