package rootfs

import (
	"fmt"
	"io/fs"

	"forage"
)

// etcEntries is what of the host's /etc is shown: what programs need to run,
// and nothing that says more about the machine than what is installed on it. An entry that is not
// readable by everybody on the host is left out whatever its name.
var etcEntries = []string{
	// dynamic linking and installed alternatives
	"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld-musl-x86_64.path", "ld-musl-aarch64.path", "alternatives",
	// trust; never the whole of ssl or pki, which hold private keys
	"ssl/certs", "ssl/openssl.cnf", "ssl/cert.pem", "ssl/ca-bundle.pem", "ssl/ct_log_list.cnf", "crypto-policies", "gnutls",
	"pki/tls/certs", "pki/tls/cert.pem", "pki/tls/openssl.cnf", "pki/tls/ct_log_list.cnf", "pki/ca-trust", "pki/java",
	"ca-certificates/extracted",
	// time, language, terminal
	"localtime", "timezone", "locale.conf", "terminfo", "inputrc", "bash.bashrc", "bashrc",
	// tables
	"services", "protocols", "mime.types", "gai.conf",
	// what this is
	"os-release", "debian_version", "lsb-release", "redhat-release", "fedora-release", "system-release",
	"alpine-release", "arch-release", "SuSE-release",
	// languages and libraries that keep part of themselves here
	"fonts", "java", "java-*", "jvm", "maven", "python*", "perl", "ruby", "php", "R", "ghc", "texmf", "clang",
	"ImageMagick-*", "xml", "profiles",
}

// linkerEntries are those of etcEntries that a dynamically linked program can't start without.
var linkerEntries = []string{"ld.so.cache", "ld-musl-x86_64.path", "ld-musl-aarch64.path"}

// etcEntry shows one entry of /etc. A link is kept as one where what it leads
// to is shown; otherwise what it leads to takes its place.
func (p *planner) etcEntry(name string) {
	target, info, err := resolve(p.host, name)
	if err != nil || !readableByAll(info) {
		return
	}
	if target == "/"+name {
		p.mount(target, target)
		return
	}
	if !p.shown(target) {
		if !Within(target, "/etc") { // a link out of all that is meant to be seen
			return
		}
		p.mount(target, "/"+name)
		return
	}
	if !p.shown("/" + name) {
		p.view.Links = append(p.view.Links, forage.Link{Path: "/" + name, Target: target})
	}
}

// readableByAll says whether every user of the host can read the file or list
// the folder, and whether it is one.
func readableByAll(info fs.FileInfo) bool {
	switch {
	case info.IsDir():
		return info.Mode().Perm()&0o005 == 0o005
	case info.Mode().IsRegular():
		return info.Mode().Perm()&0o004 != 0
	default:
		return false
	}
}

// Shell is the login shell inside, for a root filesystem with that root.
func Shell(root fs.FS) string {
	for _, shell := range []string{"bin/bash", "usr/bin/bash", "run/current-system/sw/bin/bash"} {
		if _, _, err := resolve(root, shell); err == nil {
			return "/" + shell
		}
	}
	return "/bin/sh"
}

// Generated are the files in /etc that say who and where the sandbox is. They
// take the place of the root filesystem's own, whatever its kind.
func Generated(name string, who forage.Identity, shell string) []forage.File {
	const nobody = 65534 // what files of owners that are not mapped show as: user_namespaces(7)
	user := fmt.Sprintf("%s:x:%d:%d:Firefly Forage agent:%s:%s\n", who.User, who.UID, who.GID, who.Home, shell)
	group := fmt.Sprintf("%s:x:%d:\n", who.User, who.GID)
	if who.UID != nobody {
		user += fmt.Sprintf("nobody:x:%d:%d:nobody:/:/sbin/nologin\n", nobody, nobody)
	}
	if who.GID != nobody {
		group += fmt.Sprintf("nogroup:x:%d:\n", nobody)
	}
	return []forage.File{
		file("/etc/passwd", user+"root:x:0:0:root:/:/sbin/nologin\n"),
		file("/etc/group", group+"root:x:0:\n"),
		file("/etc/hostname", name+"\n"),
		file("/etc/hosts", "127.0.0.1\tlocalhost "+name+"\n::1\tlocalhost ip6-localhost ip6-loopback\n"),
		file("/etc/resolv.conf", "nameserver 127.0.0.1\n"),
	}
}

// hostOnly are generated files that only the host view needs: an image brings its own.
func hostOnly() []forage.File {
	return []forage.File{
		file("/etc/nsswitch.conf", `passwd: files
group: files
shadow: files
hosts: files dns
networks: files
protocols: files
services: files
ethers: files
rpc: files
`),
		// Most distributions' own sets PATH anew, which loses the tools' folders.
		file("/etc/profile", `# Made by Firefly Forage: a login shell keeps the environment it is given.
if [ -n "${BASH_VERSION-}" ] && [ -n "${PS1-}" ] && [ -r /etc/bash.bashrc ]; then
	. /etc/bash.bashrc
fi
`),
	}
}

func file(path, content string) forage.File {
	return forage.File{Path: path, Content: []byte(content), Mode: 0o444}
}
