package child

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"forage"
)

// TestOwnedFiles looks whether the agent can do with its own files what it
// likes, and with the folders that were made for them.
func TestOwnedFiles(t *testing.T) {
	spec := baseSpec(t, makeTree(t, "x"))
	spec.Files = append(spec.Files,
		forage.File{Path: "/home/agent/.tool/deep/login.json", Content: []byte("1"), Mode: 0o600, Owned: true},
		forage.File{Path: "/home/agent/.toolrc", Content: []byte("2"), Owned: true})
	o := inside(t, spec, `
		cd; stat -c '%a %U' .tool/deep/login.json .tool/deep .tool 2>&1 | sed s/$(id -un 2>/dev/null || id -u)/me/ | tr '\n' ' '
		cat .tool/deep/login.json .toolrc
		echo new >.tool/deep/new && mv .tool/deep/new .tool/deep/login.json && cat .tool/deep/login.json
		chmod 600 .toolrc && echo changed >.toolrc && cat .toolrc
		rm -r .tool .toolrc && ls -A`)
	wantOut(t, o, "600 me 755 me 755 me 12new\nchanged")
}

func TestOwnedFilesStayInTheHome(t *testing.T) {
	tool := makeTree(t, "settings.json")
	for path, mounts := range map[string][]forage.Mount{
		"/etc/owned":                      nil,
		"/home/agent":                     nil,
		"/home/agentx/file":               nil,
		"/workspace/file":                 nil,
		"/home/agent/.tool/login.json":    {{Source: tool, Target: "/home/agent/.tool", Writable: true}},
		"/home/agent/.tool/settings.json": {{Source: filepath.Join(tool, "settings.json"), Target: "/home/agent/.tool/settings.json", Writable: true}},
	} {
		spec := with(baseSpec(t, makeTree(t, "x")), mounts...)
		spec.Files = append(spec.Files, forage.File{Path: path, Content: []byte("ours"), Owned: true})
		if _, err := boxed(t, spec, script{}); !errors.Is(err, forage.ErrStart) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(tool, "login.json")); err == nil {
		t.Error("a file was made in a folder of the host's")
	}
	if text, err := os.ReadFile(filepath.Join(tool, "settings.json")); err != nil || string(text) != "settings.json" {
		t.Errorf("the host's file is %q, %v", text, err)
	}
}

// TestFilesOverTheSystems puts files in the place of the host's own, mounted
// alone or with their folder.
func TestFilesOverTheSystems(t *testing.T) {
	certs := makeTree(t, "bundle.crt", "other.crt", "single.pem", "third.crt")
	spec := with(baseSpec(t, makeTree(t, "x")),
		forage.Mount{Source: certs, Target: "/etc/forage-certs", System: true},
		forage.Mount{Source: filepath.Join(certs, "single.pem"), Target: "/etc/forage-single.pem", System: true})
	shared := []byte("3")
	spec.Files = append(spec.Files,
		forage.File{Path: forage.RunPath + "/shared", Content: shared},
		forage.File{Path: "/etc/forage-certs/third.crt", Content: shared},
		forage.File{Path: "/etc/forage-certs/bundle.crt", Content: []byte("1")},
		forage.File{Path: "/etc/forage-single.pem", Content: []byte("2")})
	o := inside(t, spec, `
		cat /etc/forage-certs/bundle.crt /etc/forage-certs/other.crt /etc/forage-single.pem /etc/forage-certs/third.crt `+forage.RunPath+`/shared
		for f in /etc/forage-certs/third.crt /etc/forage-certs/bundle.crt /etc/forage-single.pem; do
			(echo bad >$f) 2>/dev/null && echo wrote $f; rm -f $f 2>/dev/null && echo removed $f; done; true`)
	wantOut(t, o, "1other.crt233")
}
