package child

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/rootfs"
)

// imageTree is a small unpacked image: busybox, as the host has it, or the
// libraries that the host's shell needs.
func imageTree(t testing.TB) string {
	t.Helper()
	dir := makeTree(t, "etc/passwd", "etc/motd", "opt/tool/a", "opt/tool/b", "var/lib/x/", "home -> var/home", "usr/lib/", "lib -> usr/lib", "bin/")
	for _, program := range []string{"/bin/sh", "/bin/cat", "/bin/ls", "/bin/rm", "/bin/mkdir", "/bin/id"} {
		copyProgram(t, dir, program)
	}
	chownTree(t, dir)
	return dir
}

// copyProgram copies a program with the libraries that ldd(1) lists.
func copyProgram(t testing.TB, dir, program string) {
	t.Helper()
	files := []string{program}
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		t.Skipf("ldd: %v", err)
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files = append(files, word)
		}
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		to := filepath.Join(dir, file)
		must(t, os.MkdirAll(filepath.Dir(to), 0o755))
		must(t, os.WriteFile(to, text, 0o755))
	}
}

func imageSpec(t testing.TB, workspace string, lower ...string) forage.Spec {
	t.Helper()
	spec := baseSpec(t, workspace)
	spec.Rootfs = forage.Rootfs{Kind: forage.RootfsDir, Ref: lower[0], Lower: lower}
	spec.Mounts = spec.Mounts[len(spec.Mounts)-1:]
	spec.Links = nil
	spec.Files = rootfs.Generated("test", spec.Identity, "/bin/sh")
	return spec
}

func TestOverlay(t *testing.T) {
	lower, workspace := imageTree(t), makeTree(t, "x")
	before := listing(t, lower)
	o := inside(t, imageSpec(t, workspace, lower), `
		cat /etc/passwd; cat /etc/motd; id
		echo changed >/etc/motd; rm -r /opt/tool; mkdir /opt/tool; echo c >/opt/tool/c; mkdir /var/lib/new
		cat /etc/motd; ls /opt/tool /var/lib
		(echo bad >/etc/passwd) 2>/dev/null && echo wrote passwd
		echo y >/workspace/y; echo z >/home/agent/z; ls /home /usr/bin 2>&1; ls /dev /proc/sys/kernel/hostname`)
	if o.Code != 0 {
		t.Errorf("ended with %d", o.Code)
	}
	for _, want := range []string{"agent:x:", "etc/motd", "(agent)", "\nchanged\n", "/opt/tool:\nc\n", "new\n", "/home:\nagent\n"} {
		if !strings.Contains(o.Out, want) {
			t.Errorf("no %q in %s", want, o.Out)
		}
	}
	if strings.Contains(o.Out, "wrote") {
		t.Errorf("our file could be written: %s", o.Out)
	}
	if after := listing(t, lower); after != before {
		t.Errorf("the image has changed:\n%s\nbefore:\n%s", after, before)
	}
	if _, err := os.Stat(filepath.Join(workspace, "y")); err != nil {
		t.Error(err)
	}
}

func TestOverlayLayers(t *testing.T) {
	upper := makeTree(t, "etc/motd", "opt/tool/b")
	must(t, os.WriteFile(filepath.Join(upper, "etc/motd"), []byte("upper"), 0o644))
	chownTree(t, upper)
	wantOut(t, inside(t, imageSpec(t, makeTree(t), upper, imageTree(t)), "cat /etc/motd /opt/tool/a"), "upperopt/tool/a")
}

// TestOverlayManyLayers: more than one option's length names.
func TestOverlayManyLayers(t *testing.T) {
	if runningKernel().before(kernelVersion{6, 8}) {
		t.Skip("needs Linux 6.8")
	}
	layers := []string{imageTree(t)}
	for n := range 40 {
		name := "layer" + string(rune('a'+n/26)) + string(rune('a'+n%26))
		layers = append([]string{makeTree(t, name)}, layers...)
	}
	wantOut(t, inside(t, imageSpec(t, makeTree(t), layers...), "cat /layeraa /layerbn"), "layeraalayerbn")
}

// TestOverlayTargets: mounts into an image go to where its own links can't lead them.
func TestOverlayTargets(t *testing.T) {
	lower, data := imageTree(t), makeTree(t, "d")
	spec := with(imageSpec(t, makeTree(t), lower), forage.Mount{Source: data, Target: "/opt/more/data"}, forage.Mount{Source: data, Target: "/opt/tool"})
	wantOut(t, inside(t, spec, "cat /opt/more/data/d /opt/tool/d"), "dd")
	_, err := boxed(t, with(imageSpec(t, makeTree(t), lower), forage.Mount{Source: data, Target: "/lib/data"}), script{})
	if !errors.Is(err, forage.ErrStart) {
		t.Errorf("through a link of the image: %v", err)
	}
	if entries, _ := os.ReadDir(filepath.Join(lower, "usr/lib")); len(entries) != 0 && containsName(entries, "data") {
		t.Error("something was made in the image")
	}
}

func containsName(entries []fs.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}

func TestOverlayNotUnpacked(t *testing.T) {
	spec := imageSpec(t, makeTree(t), "/nowhere")
	spec.Rootfs.Lower = nil
	if _, err := boxed(t, spec, script{}); !errors.Is(err, forage.ErrStart) {
		t.Errorf("%v", err)
	}
	spec.Rootfs.Lower = []string{"/nowhere"}
	if _, err := boxed(t, spec, script{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// listing is every file below dir with its mode, size and owner.
func listing(t testing.TB, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Lstat(path, &st); err != nil {
			return err
		}
		b.WriteString(strings.TrimPrefix(path, dir) + " " + d.Type().String())
		for _, n := range []int64{int64(st.Mode), int64(st.Uid), int64(st.Nlink)} {
			b.WriteString(" " + string(rune('0'+n%64)))
		}
		b.WriteString("\n")
		return nil
	}))
	return b.String()
}
