package engine

import (
	"encoding/csv"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage"
	"forage/internal/hostexec"
)

// TestExplain has what clients really said.
func TestExplain(t *testing.T) {
	for _, tc := range []struct {
		client client
		said   string
		kind   error
		fix    string
	}{
		{Docker, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?", forage.ErrUnsupported, "start it"},
		{Docker, "permission denied while trying to connect to the Docker daemon socket at unix:///x: Get \"http://x\": dial unix /x: connect: permission denied", forage.ErrUnsupported, "group docker"},
		{Docker, "Failed to initialize: unable to resolve docker endpoint: context \"nope\": context not found: open x: no such file or directory", forage.ErrUnsupported, "docker context ls"},
		{Docker, "Error response from daemon: Conflict. The container name \"/forage-x\" is already in use by container \"1\".", forage.ErrRefused, "another name"},
		{Podman, "Error: creating container storage: the container name \"forage-x\" is already in use by 1. You have to remove that container", forage.ErrRefused, "another name"},
		{Docker, "Error response from daemon: invalid mount config for type \"bind\": bind source path does not exist: /x", forage.ErrUnsupported, "not of this machine"},
		{Docker, "unknown flag: --pull\nSee 'docker create --help'.", forage.ErrUnsupported, "too old"},
		{Docker, "Error response from daemon: mkdir /x: no space left on device", forage.ErrStart, "make room"},
		{Podman, "Cannot connect to Podman. Error: unable to connect to Podman socket: dial unix /x: no such file", forage.ErrUnsupported, "CONTAINER_HOST"},
		{Podman, "something new", forage.ErrStart, ""},
	} {
		err := tc.client.explain(errors.New("exit status 125"), "a warning\n"+tc.said+"\n")
		if !errors.Is(err, tc.kind) || !strings.Contains(forage.Hint(err), tc.fix) || (tc.fix == "") != (forage.Hint(err) == "") {
			t.Errorf("%s: %v (%s)", tc.said, err, forage.Hint(err))
		}
		if strings.Contains(err.Error(), "warning") || strings.Contains(err.Error(), "See '") {
			t.Errorf("too much is told: %v", err)
		}
	}
	if err := client(Docker).explain(hostexec.ErrNoProgram, ""); !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) != "install docker" {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct {
		client client
		text   string
		want   facts
	}{
		"docker": {Docker, `{"ServerVersion":"20.10.24+dfsg1","KernelVersion":"6.1.0","MemoryLimit":true,"CpuCfsQuota":true,"SecurityOptions":["name=seccomp,profile=default"],"Warnings":null}`,
			facts{version: "20.10.24+dfsg1", kernel: "6.1.0", memory: true, cpu: true}},
		"rootless docker": {Docker, `{"ServerVersion":"27.0","KernelVersion":"6.1.0","SecurityOptions":["name=rootless","name=cgroupns"]}`,
			facts{version: "27.0", kernel: "6.1.0", rootless: true}},
		"podman": {Podman, `{"host":{"kernel":"6.1.0","cgroupControllers":["cpu","memory"],"security":{"rootless":true}},"version":{"Version":"4.3.1"}}`,
			facts{version: "4.3.1", kernel: "6.1.0", rootless: true, memory: true, cpu: true}},
	} {
		got, err := tc.client.parse(tc.text)
		if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(facts{})); diff != "" || err != nil {
			t.Errorf("%s: %v %s", name, err, diff)
		}
	}
	if _, err := client(Docker).parse(`{"ServerErrors":["Cannot connect to the Docker daemon at x. Is the docker daemon running?"]}`); !errors.Is(err, forage.ErrUnsupported) {
		t.Error(err)
	}
}

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		facts facts
		want  string
	}{
		"too old":         {facts{version: "19.3.1", kernel: "6.1.0"}, "is too old"},
		"another machine": {facts{version: "20.10.24", kernel: "6.1.0-other"}, "another machine"},
		"no version":      {facts{kernel: "6.1.0"}, "is too old"},
	} {
		if err := client(Docker).fit(tc.facts, "6.1.0"); !errors.Is(err, forage.ErrUnsupported) || !strings.Contains(err.Error(), tc.want) || forage.Hint(err) == "" {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := client(Podman).fit(facts{version: "4.3.1", kernel: "6.1.0"}, "6.1.0"); err != nil {
		t.Error(err)
	}
}

// TestBind: no path can add a field of its own.
func TestBind(t *testing.T) {
	for _, path := range []string{"/plain", `/a,readonly=false`, `/with "quotes"`, "/a\nb", "/a=b"} {
		fields, err := csv.NewReader(strings.NewReader(bind(path, "/forage/1", false))).Read()
		if diff := cmp.Diff([]string{"type=bind", "src=" + path, "dst=/forage/1", "readonly"}, fields); diff != "" || err != nil {
			t.Errorf("%q: %v %s", path, err, diff)
		}
	}
}

func TestSources(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("root hands mounts over")
	}
	dir := t.TempDir()
	spec := forage.Spec{
		Mounts: []forage.Mount{
			{Source: dir, Target: "/a"}, {Source: dir, Target: "/b", Writable: true},
			{Source: filepath.Join(dir, "absent"), Target: "/c", Optional: true},
		},
		Rootfs: forage.Rootfs{Lower: []string{"/layer"}}, KeptHome: "/kept",
	}
	order, writable := sources(spec, "/program")
	if diff := cmp.Diff([]string{"/program", dir, "/layer", "/kept"}, order); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"/program": false, dir: true, "/layer": false, "/kept": true}, writable); diff != "" {
		t.Error(diff)
	}
}

func TestProfile(t *testing.T) {
	var p struct {
		DefaultAction string
		Syscalls      []struct {
			Names  []string
			Action string
		}
	}
	if err := json.Unmarshal(profile, &p); err != nil || p.DefaultAction != "SCMP_ACT_ALLOW" || len(p.Syscalls) != 1 || p.Syscalls[0].Action != "SCMP_ACT_ERRNO" {
		t.Errorf("%v: %+v", err, p)
	}
}
