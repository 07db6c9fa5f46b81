package rootfs

import (
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"forage"
	"forage/internal/testdir"
)

var agent = forage.Identity{User: "agent", UID: 1000, GID: 1000, Home: "/home/agent"}

// host makes a host from lines: "usr/" is a folder, "bin -> usr/bin" a link, "etc/shadow 0640" a
// file with those permissions, other names readable files.
func host(lines ...string) fstest.MapFS {
	m := fstest.MapFS{}
	for _, line := range lines {
		name, target, link := strings.Cut(line, " -> ")
		base, mode, hasMode := strings.Cut(name, " ")
		file := &fstest.MapFile{Mode: 0o644}
		if strings.HasSuffix(base, "/") {
			base, file.Mode = strings.TrimSuffix(base, "/"), fs.ModeDir|0o755
		}
		if hasMode {
			var bits fs.FileMode
			for _, c := range mode {
				bits = bits<<3 | fs.FileMode(c-'0')
			}
			file.Mode = file.Mode.Type() | bits
		}
		if link {
			file.Mode, file.Data = fs.ModeSymlink|0o777, []byte(target)
		}
		m[base] = file
	}
	return m
}

// summary is a view as lines: "/usr", "/opt <- /var/opt", "/bin -> usr/bin".
func summary(v View) []string {
	var lines []string
	for _, m := range v.Mounts {
		line := m.Target
		if m.Source != m.Target {
			line += " <- " + m.Source
		}
		if !m.System || m.Writable {
			line += " (not a part of the system)"
		}
		lines = append(lines, line)
	}
	for _, l := range v.Links {
		lines = append(lines, l.Path+" -> "+l.Target)
	}
	return lines
}

func TestHost(t *testing.T) {
	for _, tc := range []struct {
		name string
		host fstest.MapFS
		want []string
	}{
		{
			"Debian",
			host("usr/", "usr/bin/", "usr/lib/", "usr/lib64/", "usr/sbin/", "usr/local/", "opt/",
				"bin -> usr/bin", "sbin -> usr/sbin", "lib -> usr/lib", "lib64 -> usr/lib64", "home/user/", "root/", "boot/", "srv/", "var/lib/",
				"etc/passwd", "etc/shadow 0640", "etc/ssl/", "etc/ssl/certs/", "etc/ssl/private/ 0710", "etc/ssl/openssl.cnf", "etc/ssh/", "etc/machine-id",
				"etc/ld.so.cache", "etc/alternatives/", "etc/java-17-openjdk/", "etc/java-21-openjdk/", "etc/javascript/", "etc/python3/", "etc/python3.11/",
				"etc/localtime -> /usr/share/zoneinfo/Etc/UTC", "usr/share/zoneinfo/Etc/UTC", "etc/os-release -> ../usr/lib/os-release", "usr/lib/os-release",
				"etc/npmrc", "etc/gitconfig", "etc/hosts", "etc/services"),
			[]string{
				"/usr", "/opt", "/etc/ld.so.cache", "/etc/alternatives", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/services",
				"/etc/java-17-openjdk", "/etc/java-21-openjdk", "/etc/python3", "/etc/python3.11",
				"/bin -> usr/bin", "/sbin -> usr/sbin", "/lib -> usr/lib", "/lib64 -> usr/lib64",
				"/etc/localtime -> /usr/share/zoneinfo/Etc/UTC", "/etc/os-release -> /usr/lib/os-release", "/etc/mtab -> /proc/self/mounts",
			},
		},
		{
			"Alpine, with folders of their own",
			host("usr/bin/", "bin/", "sbin/", "lib/", "etc/ssl/certs/"),
			[]string{"/usr", "/bin", "/sbin", "/lib", "/etc/ssl/certs", "/etc/mtab -> /proc/self/mounts"},
		},
		{
			"Fedora Silverblue",
			host("usr/bin/", "usr/local -> ../var/usrlocal", "var/usrlocal/bin/", "var/opt/", "opt -> var/opt", "bin -> usr/bin", "home -> var/home", "var/home/user/",
				"etc/pki/ca-trust/", "etc/pki/tls/certs/", "etc/pki/tls/private/ 0700", "etc/pki/nssdb/", "etc/pki/tls/cert.pem -> /etc/pki/ca-trust/extracted/pem/x.pem", "etc/pki/ca-trust/extracted/pem/x.pem",
				"etc/crypto-policies/"),
			[]string{
				"/usr", "/var/opt", "/var/usrlocal", "/etc/crypto-policies", "/etc/pki/tls/certs", "/etc/pki/tls/cert.pem <- /etc/pki/ca-trust/extracted/pem/x.pem", "/etc/pki/ca-trust",
				"/opt -> var/opt", "/bin -> usr/bin", "/etc/mtab -> /proc/self/mounts",
			},
		},
		{
			"NixOS",
			host("usr/bin/env -> /nix/store/a-coreutils/bin/env", "bin/sh -> /nix/store/b-bash/bin/sh", "nix/store/a-coreutils/bin/env", "nix/store/b-bash/bin/sh", "nix/var/", "run/current-system -> /nix/store/c-system", "nix/store/c-system/sw/bin/bash",
				"etc/static -> /nix/store/d-etc/etc", "nix/store/d-etc/etc/services", "nix/store/d-etc/etc/sudoers", "etc/services -> /etc/static/services", "etc/sudoers -> /etc/static/sudoers", "etc/ssl/certs/ca-certificates.crt -> /etc/static/services",
				"etc/NIXOS"),
			[]string{
				"/usr", "/nix/store", "/bin", "/etc/ssl/certs",
				"/run/current-system -> /nix/store/c-system", "/etc/static -> /nix/store/d-etc/etc", "/etc/services -> /nix/store/d-etc/etc/services", "/etc/mtab -> /proc/self/mounts",
			},
		},
		{
			"an /etc that is elsewhere",
			host("usr/bin/", "etc -> usr/etc", "usr/etc/services", "usr/etc/shadow 0640"),
			[]string{"/usr", "/etc/services -> /usr/etc/services", "/etc/mtab -> /proc/self/mounts"},
		},
		{
			"links that lead where nothing is meant to be seen",
			host("usr/bin/", "opt -> home/user", "home/user/", "lib32 -> gone", "etc/services -> /root/x", "root/x", "etc/localtime -> /etc/shadow", "etc/shadow 0640", "etc/terminfo -> /var/lib/x", "var/lib/x/", "etc/fonts/ 0750", "etc/protocols 0600", "lib64 -> lib64", "sbin"),
			[]string{"/usr", "/etc/mtab -> /proc/self/mounts"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v, err := Host(tc.host, "box", agent)
			testdir.Must(t, err)
			testdir.Same(t, "", tc.want, summary(v))
		})
	}
}

// TestThisHost: on the machine at hand, every source is there, without links, and nothing private
// is in the view.
func TestThisHost(t *testing.T) {
	v, err := Host(os.DirFS("/"), "box", agent)
	testdir.Must(t, err)
	for _, m := range v.Mounts {
		info, err := os.Lstat(m.Source)
		if err != nil || info.Mode()&fs.ModeSymlink != 0 {
			t.Errorf("%s: %v", m.Source, err)
		}
		for _, secret := range []string{"/etc/shadow", "/etc/ssl/private", "/etc/ssh", "/root", "/home/x", "/var/lib", "/run", "/etc/machine-id", "/etc/sudoers"} {
			if Within(secret, m.Target) || Within(secret, m.Source) {
				t.Errorf("%s shows %s", m.Source, secret)
			}
		}
	}
}

func TestGenerated(t *testing.T) {
	files := map[string]string{}
	for _, f := range Generated("box", agent, "/bin/zsh") {
		if f.Mode&0o222 != 0 {
			t.Errorf("%s can be written", f.Path)
		}
		files[f.Path] = string(f.Content)
	}
	want := map[string]string{
		"/etc/passwd":      "agent:x:1000:1000:Firefly Forage agent:/home/agent:/bin/zsh\nnobody:x:65534:65534:nobody:/:/sbin/nologin\nroot:x:0:0:root:/:/sbin/nologin\n",
		"/etc/group":       "agent:x:1000:\nnogroup:x:65534:\nroot:x:0:\n",
		"/etc/hostname":    "box\n",
		"/etc/hosts":       "127.0.0.1\tlocalhost box\n::1\tlocalhost ip6-localhost ip6-loopback\n",
		"/etc/resolv.conf": "nameserver 127.0.0.1\n",
	}
	testdir.Same(t, "", want, files)
	nobody := agent
	nobody.UID, nobody.GID = 65534, 65534
	if text := string(Generated("box", nobody, "/bin/sh")[0].Content); strings.Count(text, "65534:65534") != 1 {
		t.Errorf("two users with one id: %s", text)
	}
}

func TestShell(t *testing.T) {
	for want, root := range map[string]fstest.MapFS{
		"/bin/bash":                       host("bin -> usr/bin", "usr/bin/bash"),
		"/bin/sh":                         host("bin/sh"),
		"/run/current-system/sw/bin/bash": host("run/current-system -> /nix/store/x", "nix/store/x/sw/bin/bash"),
	} {
		if got := Shell(root); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestWithin(t *testing.T) {
	for _, tc := range []struct {
		path, dir string
		want      bool
	}{
		{"/a", "/a", true}, {"/a/b", "/a", true}, {"/ab", "/a", false}, {"/a", "/a/b", false}, {"/a", "/", true}, {"/", "/", true}, {"/", "/a", false},
	} {
		if got := Within(tc.path, tc.dir); got != tc.want {
			t.Errorf("Within(%s, %s) is %v", tc.path, tc.dir, got)
		}
	}
}

func TestResolve(t *testing.T) {
	h := host("a/b/file", "link -> a/b", "abs -> /a", "a/up -> ../a/b/file", "loop -> loop2", "loop2 -> loop", "out -> ../../../a", "gone -> nowhere")
	for name, want := range map[string]string{
		"a/b/file": "/a/b/file", "link/file": "/a/b/file", "abs/b": "/a/b", "a/up": "/a/b/file", "out/b": "/a/b", "a/../link": "/a/b",
		"loop": "", "gone": "", "a/b/file/more": "",
	} {
		got, _, err := resolve(h, name)
		if (err != nil) != (want == "") || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

func TestEnvironment(t *testing.T) {
	env := Environment("box", agent, "/bin/bash", []string{"/home/u/.npm/bin"}, "/etc/ca.pem")
	for name, want := range map[string]string{
		"HOME": "/home/agent", "USER": "agent", "FORAGE_SANDBOX": "box", "AGENT_SANDBOX": "1", "GIT_CONFIG_SYSTEM": "/etc/gitconfig", "SHELL": "/bin/bash", "PIP_BREAK_SYSTEM_PACKAGES": "1", "NPM_CONFIG_PREFIX": "/home/agent/.local",
		"PATH":       "/run/forage/browsers:/home/u/.npm/bin:/home/agent/.local/bin:/home/agent/go/bin:/home/agent/.cargo/bin:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin",
		"HTTP_PROXY": "http://127.0.0.1:18080", "https_proxy": "http://127.0.0.1:18080", "ALL_PROXY": "http://127.0.0.1:18080", "no_proxy": "localhost,127.0.0.1,::1",
		"SSL_CERT_FILE": "/etc/ca.pem", "NODE_EXTRA_CA_CERTS": "/etc/ca.pem", "GIT_SSL_CAINFO": "/etc/ca.pem",
	} {
		if env[name] != want {
			t.Errorf("%s is %q, want %q", name, env[name], want)
		}
	}
	if _, ok := Environment("box", agent, "/bin/sh", nil, "")["SSL_CERT_FILE"]; ok {
		t.Error("a bundle that is not there is named")
	}
}
