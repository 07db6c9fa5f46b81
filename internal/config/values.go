package config

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"forage"
	"forage/internal/policy"
)

// runtimes are the names that a runtime may have, whether or not this version has it.
var runtimes = [...]string{"native", "bwrap", "oci", "docker", "podman", "nspawn", "vm", "kubernetes", "apple"}

// Characters that names are made of. They are compared by hand: compiling
// patterns would be paid by every command and every guest, before main.
const (
	lower   = "abcdefghijklmnopqrstuvwxyz"
	letters = lower + "ABCDEFGHIJKLMNOPQRSTUVWXYZ_"
	digits  = "0123456789"
)

// isName says whether text is made of the characters of rest, and begins with one of first.
func isName(text, first, rest string) bool {
	return text != "" && strings.IndexByte(first, text[0]) >= 0 && strings.Trim(text, rest) == ""
}

// isEnvName says whether text is a portable name of a variable (POSIX, XBD 8.1).
func isEnvName(text string) bool { return isName(text, letters, letters+digits) }

// isUserName says whether text is what useradd(8) takes for a login name.
func isUserName(text string) bool {
	return isName(strings.TrimSuffix(text, "$"), letters, letters+digits+".-")
}

func isPrefix(text string) bool {
	return len(text) <= 32 && isName(text, lower+digits, lower+digits+"-")
}

var (
	errSize     = errors.New(`expected a size such as "512M" or "4G"`)
	errPercent  = errors.New(`expected percent of one processor, such as "200%"`)
	errDuration = errors.New(`expected a time such as "90m" or "2h"`)
)

// parseSize reads "512M" as bytes: a whole number and K, M, G or T, which are
// powers of 1024.
func parseSize(text string) (int64, error) {
	shift := 0
	number := strings.TrimRight(text, "KMGT")
	switch text[len(number):] {
	case "":
	case "K":
		shift = 10
	case "M":
		shift = 20
	case "G":
		shift = 30
	case "T":
		shift = 40
	default:
		return 0, errSize
	}
	n, err := positive(number)
	if err != nil || n > math.MaxInt64>>shift {
		return 0, errSize
	}
	return n << shift, nil
}

// parsePercent reads "200%" as 200.
func parsePercent(text string) (int64, error) {
	number, ok := strings.CutSuffix(text, "%")
	n, err := positive(number)
	if !ok || err != nil || n > 100*10_000 {
		return 0, errPercent
	}
	return n, nil
}

// positive reads a decimal number of at least 1, digits alone.
func positive(text string) (int64, error) {
	if strings.Trim(text, digits) != "" {
		return 0, errors.New("expected digits")
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && n < 1 {
		err = errors.New("expected at least 1")
	}
	return n, err
}

// parseDuration reads "1h30m"; it is at least a second.
func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d < time.Second {
		return 0, errDuration
	}
	return d, nil
}

// parseRootfs reads host, image:REFERENCE, dir:PATH or oci:PATH; base is what
// a relative path is relative to.
func parseRootfs(text, base, home string) (forage.Rootfs, error) {
	if text == "host" {
		return forage.Rootfs{Kind: forage.RootfsHost}, nil
	}
	kind, ref, _ := strings.Cut(text, ":")
	switch {
	case ref == "":
	case kind == "image":
		return forage.Rootfs{Kind: forage.RootfsImage, Ref: ref}, nil
	case kind == "dir", kind == "oci":
		path, err := resolvePath(ref, base, home)
		return forage.Rootfs{Kind: forage.RootfsKind(kind), Ref: path}, err
	}
	return forage.Rootfs{}, fmt.Errorf("%.80q: expected host, image:REFERENCE, dir:PATH or oci:PATH", text)
}

// resolvePath makes path absolute: ~ is home, and relative paths begin at base.
func resolvePath(path, base, home string) (string, error) {
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", errors.New("expected a path")
	case path == "~" || strings.HasPrefix(path, "~/"):
		if !filepath.IsAbs(home) {
			return "", fmt.Errorf("%s: no home folder is known", path)
		}
		path = home + path[1:]
	case path[0] == '~':
		return "", fmt.Errorf("%.80q: another user's home folder has to be written out", path)
	case path[0] != '/':
		path = filepath.Join(base, path)
	}
	return filepath.Clean(path), nil
}

// checkHost takes any name of a set: whether there is one is known when its hosts are looked for.
func checkHost(entry string) error {
	if policy.IsSet(entry) {
		return checkSetName(entry[1:])
	}
	_, err := policy.Compile(forage.Network{Mode: forage.NetworkRestricted, Allow: []string{entry}})
	return err
}

func checkSetName(name string) error {
	if forage.CheckName(name) != nil {
		return fmt.Errorf("%.80q: expected the name of a set of hosts, such as @github", "@"+name)
	}
	return nil
}

func checkMode(text string) (forage.NetworkMode, error) {
	switch mode := forage.NetworkMode(text); mode {
	case forage.NetworkFull, forage.NetworkRestricted, forage.NetworkNone:
		return mode, nil
	}
	return "", fmt.Errorf("%.80q: expected full, restricted or none", text)
}

func checkRuntime(text string) error {
	for _, name := range runtimes {
		if text == name {
			return nil
		}
	}
	return fmt.Errorf("%.80q is not a runtime%s", text, didYouMean(text, runtimes[:]))
}

// checkKey checks an authorized_keys line without options (sshd(8)).
func checkKey(line string) error {
	words := strings.Fields(line)
	if len(words) >= 2 && !strings.ContainsAny(line, "\n\r\x00") {
		blob, err := base64.StdEncoding.DecodeString(words[1])
		// A blob begins with its type as a string (RFC 4253, 6.6).
		if err == nil && len(blob) > 4+len(words[0]) && string(blob[4:4+len(words[0])]) == words[0] {
			return nil
		}
	}
	return fmt.Errorf("%.40q: expected an OpenSSH public key such as \"ssh-ed25519 AAAA...\"", line)
}

// parseResolve reads an entry of network.resolve; the name is returned in canonical form.
func parseResolve(from, to string) (string, string, error) {
	r, err := policy.ParseAuthority(from, 0)
	if err != nil || r.Host == "" {
		return "", "", fmt.Errorf("%.80q: expected name:port", from)
	}
	addr, err := netip.ParseAddrPort(to)
	if err != nil || addr.Port() == 0 || addr.Addr().Zone() != "" {
		return "", "", fmt.Errorf("%.80q: expected address:port", to)
	}
	return r.Authority(), addr.String(), nil
}

func checkProxy(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" || (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%.80q: expected http://host:port", text)
	}
	return nil
}

func checkListen(text string) error {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return fmt.Errorf("%.80q: expected an address such as 127.0.0.1", text)
	}
	return nil
}
