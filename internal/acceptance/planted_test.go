package acceptance

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"forage/internal/testdir"
)

// plant puts a secret into all places that a search looks at, each in another form. The secrets
// come in files of the workspace, which it removes.
const plant = `cd /workspace
read -r kept < memory
variable=$(cat environment)
VARIABLE=$variable sleep infinity &
until tr '\0' '\n' </proc/$!/environ | grep -q ^VARIABLE=; do sleep 0.01; done
sh -c 'sleep infinity; :' sh "$(cat arguments)" &
until tr '\0' '\n' </proc/$!/cmdline | grep -qx 'sleep infinity; :'; do sleep 0.01; done
cp home ~/planted
base64 -w0 < tmp > /tmp/planted
od -An -v -tx1 < shm | tr -d ' \n' > /dev/shm/planted
printf %s "x$(cat work)" > planted
: > ~/"$(cat name)"
ln -s "$(cat link)" ~/link
cat log
rm memory environment arguments home tmp shm work name link log
: > ready
wait; : "$kept"`

// TestSearchFindsPlanted: the search by which other tests find no secret finds one
// in each of the places that it looks at.
func TestSearchFindsPlanted(t *testing.T) {
	t.Parallel()
	places := map[string]string{ // name of the secret, and where it is found
		"memory": "memory of ", "environment": "environment of ", "arguments": "command line of ",
		"home": "file /proc/PID/root/home/agent/planted: ", "tmp": "file /proc/PID/root/tmp/planted: ",
		"shm": "file /proc/PID/root/dev/shm/planted: ", "work": "file /proc/PID/root/workspace/planted: ",
		"name": "file name /proc/PID/root/home/", "link": "file /proc/PID/root/home/agent/link: ",
		"etc": "file /proc/PID/root/etc/", "run": "file /proc/PID/root/run/secrets/run: ",
		"log": "state STATE/sandboxes/planted.log: ", "audit": "state STATE/sandboxes/planted.audit.jsonl: ",
		"record": "state STATE/sandboxes/planted.json: ", "generated": "state STATE/sandboxes/planted.generated/planted: ",
		"runtime": "runtime folder RUNTIME/planted/planted: ",
	}
	secrets := map[string]string{}
	for name := range places {
		secrets[name] = random(60)
	}
	project := t.TempDir()
	for _, name := range []string{"memory", "environment", "arguments", "home", "tmp", "shm", "work", "name", "link", "log"} {
		write(t, filepath.Join(project, name), secrets[name]+"\n")
	}
	w := newWorld(t)
	fmt.Fprintf(&w.config, "[secrets.run]\nfile = %q\nhosts = [\"example.com\"]\ninject = \"bearer\"\n[templates.planted]\nsecrets = [\"run\"]\nsecretMode = \"wrapper\"\n"+
		"[templates.planted.agents.sh]\ncommand = [\"sh\"]\n", w.file("run", secrets["run"]))
	forage := w.program("/usr/bin")
	forage.run("up", "planted", "-t", "planted", "-w", project, "--git-user", secrets["etc"], "--env", "PLANTED="+secrets["record"], "--", "sh", "-c", plant)
	t.Cleanup(func() { forage.run("down", "planted") })
	wait(t, "the secrets are planted", func() bool {
		_, err := os.Stat(filepath.Join(project, "ready"))
		log, _ := os.ReadFile(filepath.Join(forage.stateDir, "sandboxes", "planted.log"))
		return err == nil && strings.Contains(string(log), secrets["log"])
	})
	for name, file := range map[string]string{
		"audit": "state/sandboxes/planted.audit.jsonl", "generated": "state/sandboxes/planted.generated/planted", "runtime": "run/planted/planted",
	} {
		path := filepath.Join(filepath.Dir(forage.stateDir), file)
		out, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
		testdir.Must(t, err)
		fmt.Fprintln(out, secrets[name])
		testdir.Must(t, out.Close())
	}

	s := newSearch(secrets)
	s.sandbox(t, project)
	forage.writes(s)
	found := []string{}
	for place := range s.found {
		place = numbered.ReplaceAllString(place, "/proc/PID/")
		found = append(found, strings.NewReplacer(forage.stateDir, "STATE", forage.runtimeDir, "RUNTIME").Replace(place))
	}
	slices.Sort(found)
	for name, where := range places {
		t.Run(name, func(t *testing.T) {
			if !slices.ContainsFunc(found, func(place string) bool {
				return strings.HasPrefix(place, where) && strings.Contains(place, ": "+name+", ")
			}) {
				t.Errorf("not found where it is planted (%s); found:\n%s", where, strings.Join(found, "\n"))
			}
		})
	}
}

var numbered = regexp.MustCompile(`/proc/[0-9]+/`)

func write(t *testing.T, path, content string) {
	t.Helper()
	testdir.Must(t, os.WriteFile(path, []byte(content), 0o600))
}

// wait waits for a condition, as long as run does.
func wait(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// TestSecretsAsRoot looks into what an ordinary user can't: the first process of
// a sandbox, which is Forage's own.
func TestSecretsAsRoot(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	project, key := t.TempDir(), random(60)
	testdir.Must(t, os.Chown(project, 1000, 1000))
	w := newWorld(t)
	asked := make(chan string, 1)
	w.serve("api.example.com", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s := newSearch(map[string]string{"the key": key})
		s.sandbox(t, project)
		if len(s.closed) != 0 || !slices.ContainsFunc(s.processes, first) {
			t.Errorf("looked at %d and not at %q, want all, the first among them", s.processes, s.closed)
		}
		s.check(t)
		asked <- r.Header.Get("Authorization")
	}))
	fmt.Fprintf(&w.config, "[secrets.key]\nfile = %q\nhosts = [\"api.example.com\"]\ninject = \"bearer\"\n"+
		"[templates.box]\nnetwork = \"restricted\"\nallowedHosts = [\"api.example.com\"]\nsecrets = [\"key\"]\n[templates.box.agents.sh]\ncommand = [\"sh\"]\n", w.file("key", key))
	forage := newProgramOfAnybody(t, w.text(), "/usr/bin")
	forage.run("run", "-t", "box", "-w", project, "--name", "acceptance-root", "--", "curl", "-fsS", "https://api.example.com/")
	if got := <-asked; got != "Bearer "+key {
		t.Errorf("the server was shown %q", got)
	}
}
