package devcontainer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"forage/internal/testdir"
)

func TestParse(t *testing.T) {
	got, err := parse([]byte(`// A comment.
{
	"name": "x",
	"image": "registry.example/base:1", // with a trailing comma
	"features": {"registry.example/node:1": {}},
	"containerEnv": {"A": "${containerWorkspaceFolder}/a", "TOKEN": "${localEnv:GITHUB_TOKEN}", "GONE": "x", "PATH": "/workspace/bin"},
	"remoteEnv": {"B": "b", "GONE": null},
	"onCreateCommand": ["echo", "it's"],
	"postCreateCommand": {"one": "npm ci", "two": ["make"]},
	"initializeCommand": "rm -rf ~",
	"runArgs": ["--privileged"],
	"forwardPorts": [3000, "8080", "db:5432"],
	"mounts": [
		"source=cache,target=/home/agent/.cache,type=volume",
		{"source": "/home/me/.ssh", "target": "/ssh", "type": "bind"},
		"source=../../x,target=/x,type=volume",
	],
}`), ".devcontainer")
	if err != nil {
		t.Fatal(err)
	}
	want := Container{
		Image: "registry.example/base:1",
		Env:   map[string]string{"A": "/workspace/a", "B": "b"},
		Init:  []string{`'echo' 'it'\''s'`, "npm ci", "'make'"},
		Ports: []int{3000, 8080}, Volumes: []Volume{{"cache", "/home/agent/.cache"}},
		Notes: []string{
			"devcontainer.json: left out features: a sandbox can't do what it asks for",
			"devcontainer.json: left out initializeCommand: a sandbox can't do what it asks for",
			"devcontainer.json: left out runArgs: a sandbox can't do what it asks for",
			"devcontainer.json: left out the variable PATH",
			"devcontainer.json: left out the variable TOKEN, which is made from others",
			`devcontainer.json: left out forwardPorts: "db:5432" is no port of the sandbox`,
			`devcontainer.json: left out the mount of "/home/me/.ssh": it is no named volume; show a folder with --mount`,
			`devcontainer.json: left out the mount of "../../x": it is no named volume; show a folder with --mount`,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestBuild(t *testing.T) {
	got, err := parse([]byte(`{"build": {"dockerfile": "Dockerfile", "context": "..", "args": {"V": "1"}}}`), ".devcontainer")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Build{Dockerfile: ".devcontainer/Dockerfile", Context: ".", Args: map[string]string{"V": "1"}}, got.Build); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{
		`{"build": {"dockerfile": "../../Dockerfile"}}`, `{"build": {"dockerfile": "Dockerfile", "context": "../.."}}`,
		`{}`, `{"image": "a", "build": {"dockerfile": "D"}}`, `{"image": 3}`, `{"image": "a", "postCreateCommand": 3}`, `[`,
	} {
		if _, err := parse([]byte(text), ".devcontainer"); err == nil {
			t.Errorf("%s was taken", text)
		}
	}
}

// TestReadStaysInTheProject: an agent may have made a link of the file.
func TestReadStaysInTheProject(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(dir, "outside")
	project := filepath.Join(dir, "project")
	if err := os.WriteFile(outside, []byte(`{"image": "secret"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(project); err == nil || !strings.Contains(err.Error(), "there is no") {
		t.Error(err)
	}
	if err := os.Symlink(outside, filepath.Join(project, ".devcontainer.json")); err != nil {
		t.Fatal(err)
	}
	if c, err := Read(project); err == nil {
		t.Errorf("a link out of the project was followed: %+v", c)
	}
}

// A FIFO that an agent left would hold up its reader for ever.
func TestReadWaitsForNoFIFO(t *testing.T) {
	dir := t.TempDir()
	testdir.Must(t, unix.Mkfifo(filepath.Join(dir, ".devcontainer.json"), 0o600))
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "it is no file") {
		t.Errorf("read: %v", err)
	}
}
