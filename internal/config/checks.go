package config

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"forage"
	"forage/internal/policy"
	"forage/internal/provider"
	"forage/internal/sshkeys"
)

// runtimes are the names that a runtime may have, whether or not this version has it.
var runtimes = [...]string{"native", "bwrap", "oci", "docker", "podman", "nspawn", "vm", "kubernetes", "apple"}

// surroundings are what a text in a file may be relative to.
type surroundings struct {
	dir  string // of the file
	home string // of the caller; "" if it is not known
}

// check says what is wrong with a text, or what it stands for: most stand for themselves.
type check func(text string, in surroundings) (string, error)

// checks are the checks that the tags of raw types name. Only who reads a configuration pays for
// making them.
var checks = sync.OnceValue(func() map[string]check {
	return map[string]check{
		"address": is(func(text string) bool {
			addr, err := netip.ParseAddr(text)
			return err == nil && addr.Zone() == ""
		}, "%.80q: expected an address such as 127.0.0.1"),
		"argument": plain(checkArgument),
		"basicUser": is(func(text string) bool { // RFC 7617, 2
			return !strings.Contains(text, ":") && !strings.ContainsFunc(text, isControl) && len(text) <= 256
		}, "%.80q: expected a user's name, without a colon"),
		"cache": oneOf(forage.CacheNames()...),
		"certificate": is(func(text string) bool {
			kind, value, _ := strings.Cut(text, ":")
			return value != "" && slices.Contains([]string{"URI", "DNS", "CN"}, kind)
		}, "%.80q: expected URI:..., DNS:... or CN:... as it is in the certificate"),
		"dollars": is(func(text string) bool {
			cost, err := strconv.ParseFloat(text, 64)
			return err == nil && cost > 0 && !math.IsInf(cost, 0)
		}, "%s: expected US dollars, more than 0, such as 5 or 2.50"),
		"duration":      parsed(parseDuration),
		"flag":          known("a flag that can be forbidden", forbiddableFlags[:]),
		"forbidNetwork": oneOf("full", "restricted", "none", string(MonitorNetwork)),
		"forward":       oneOf("auto"),
		"format": is(func(text string) bool {
			return strings.Count(text, "{}") == 1 && !strings.ContainsFunc(text, isControl) && len(text) <= 1024
		}, `%.80q: expected text with {} once, in the place of the value, such as "Bearer {}"`),
		"header": plain(checkHeader),
		"home":   oneOf("kept", ephemeralHome),
		"host":   plain(checkHost),
		"inject": oneOf("header", "bearer", "basic", "query", "placeholder", "aws-sigv4"),
		"key":    plain(checkKey),
		"keyring": is(func(text string) bool {
			service, user, ok := strings.Cut(text, "/")
			return ok && service != "" && user != "" && !strings.ContainsFunc(text, isControl)
		}, "%.80q: expected service/user"),
		"listen":  listenText,
		"login":   oneOf("claude", "chatgpt"),
		"name":    plain(checkName),
		"network": oneOf("full", "restricted", "none"),
		"octal": is(func(text string) bool {
			mode, err := strconv.ParseUint(text, 8, 32)
			return err == nil && mode <= 0o777 && mode&0o600 == 0o600
		}, `%.80q: expected permissions in octal such as "0660"`),
		"partMode":   oneOf("direct", "git-worktree", "jj", "clone"),
		"path":       resolvePath,
		"pathOrNone": orNone(resolvePath),
		"pattern":    plain(checkPattern),
		"percent":    parsed(parsePercent),
		"port":       between(1, 65535, "a port, 1 to 65535"),
		"positive":   between(1, math.MaxInt64, "at least 1"),
		"prefix": is(func(text string) bool {
			return len(text) <= 32 && isName(text, lower+digits, lower+digits+"-")
		}, "%.80q: expected up to 32 of a-z, 0-9 and -"),
		"preset": known("a preset", provider.Names()),
		"privateHost": is(func(text string) bool {
			name := strings.TrimPrefix(text, "*.")
			canonical, err := policy.Canonical(name)
			return err == nil && canonical == name
		}, "%.80q: expected a name in lower case, or *.suffix, without a port"),
		"proxy": is(func(text string) bool {
			u, err := url.Parse(text)
			return err == nil && u.Scheme == "http" && u.Hostname() != "" && (u.Path == "" || u.Path == "/") && u.RawQuery == "" && u.Fragment == ""
		}, "%.80q: expected http://host:port"),
		"query": is(func(text string) bool {
			return text != "" && len(text) <= 128 && !strings.ContainsFunc(text, isControl)
		}, "%.80q: expected the name of a parameter, such as key"),
		"repo":       repoText,
		"rootfs":     rootfsText,
		"runtime":    known("a runtime", runtimes[:]),
		"runtimeOf":  plain(checkRuntime),
		"secretHost": plain(checkSecretHost),
		"secretMode": oneOf("inject", string(forage.SecretsWrapped)),
		"set":        plain(checkSetName),
		"size":       parsed(parseSize),
		"target":     plain(forage.CheckTarget),
		"sshForward": oneOf(forage.ForwardPorts, forage.ForwardAgent),
		"terminal":   oneOf("clipboard", "title"),
		"text":       plain(checkText),
		"uid":        between(0, math.MaxUint32-1, "a user's number"),
		"user": is(func(text string) bool { // what useradd(8) takes
			return isName(strings.TrimSuffix(text, "$"), letters, letters+digits+".-")
		}, "%.80q is not a user's name"),
		"variable":       is(isEnvName, "%.80q is not a variable's name"),
		"variableOrNone": orNone(is(isEnvName, "%.80q is not a variable's name")),
	}
})

func plain(is func(string) error) check {
	return func(text string, _ surroundings) (string, error) { return text, is(text) }
}

// is takes texts for which ok is true; wrong says what is expected, with the text in it.
func is(ok func(string) bool, wrong string) check {
	return plain(func(text string) error {
		if !ok(text) {
			return fmt.Errorf(wrong, text)
		}
		return nil
	})
}

func orNone(is check) check {
	return func(text string, in surroundings) (string, error) {
		if text == "" {
			return "", nil
		}
		return is(text, in)
	}
}

// parsed checks that a text can be parsed; it is parsed again where its value is wanted.
func parsed[T any](parse func(string) (T, error)) check {
	return plain(func(text string) error {
		if _, err := parse(text); err != nil {
			return fmt.Errorf("%.80q: %w", text, err)
		}
		return nil
	})
}

func oneOf(names ...string) check {
	last := len(names) - 1
	return plain(func(text string) error {
		if slices.Contains(names, text) {
			return nil
		}
		return fmt.Errorf("%.80q: expected %s or %s", text, strings.Join(names[:last], ", "), names[last])
	})
}

// checkRuntime takes a runtime, oci with its program too: a name, or an absolute path.
func checkRuntime(text string) error {
	program, named := strings.CutPrefix(text, "oci:")
	switch {
	case !named:
		_, err := known("a runtime", runtimes[:])(text, surroundings{})
		return err
	case filepath.IsAbs(program), isName(program, lower+digits, lower+digits+"-."):
		return nil
	}
	return fmt.Errorf("%.80q: expected oci:NAME or oci:/PATH", text)
}

func known(what string, names []string) check {
	return plain(func(text string) error {
		if slices.Contains(names, text) {
			return nil
		}
		return fmt.Errorf("%.80q is not %s%s", text, what, didYouMean(text, names))
	})
}

func between(least, most int64, what string) check {
	return plain(func(text string) error {
		if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < least || n > most {
			return fmt.Errorf("%s: expected %s", text, what)
		}
		return nil
	})
}

func checkName(name string) error {
	if forage.CheckName(name) != nil {
		return errors.New("expected a name of 1 to 63 of a-z, 0-9 and -")
	}
	return nil
}

func checkText(text string) error {
	if strings.TrimSpace(text) == "" || strings.ContainsRune(text, 0) {
		return errors.New("expected something that is not empty")
	}
	return nil
}

func checkArgument(text string) error {
	if strings.ContainsRune(text, 0) {
		return errors.New("a variable or argument can't hold a zero byte")
	}
	return nil
}

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

// rootfsText reads host, image:REFERENCE, dir:PATH or oci:PATH.
func rootfsText(text string, in surroundings) (string, error) {
	kind, ref, _ := strings.Cut(text, ":")
	switch {
	case text == "host", kind == "image" && ref != "":
		return text, nil
	case (kind == "dir" || kind == "oci") && ref != "":
		path, err := resolvePath(ref, in)
		return kind + ":" + path, err
	}
	return "", fmt.Errorf("%.80q: expected host, image:REFERENCE, dir:PATH or oci:PATH", text)
}

// repoText takes a folder, or the URL of a clone.
func repoText(text string, in surroundings) (string, error) {
	if forage.IsURL(text) {
		return text, nil
	}
	return resolvePath(text, in)
}

// resolvePath makes path absolute: ~ is home, and relative paths begin at the file.
func resolvePath(path string, in surroundings) (string, error) {
	switch {
	case path == "" || strings.ContainsRune(path, 0):
		return "", errors.New("expected a path")
	case path == "~" || strings.HasPrefix(path, "~/"):
		if !filepath.IsAbs(in.home) {
			return "", fmt.Errorf("%s: no home folder is known", path)
		}
		path = in.home + path[1:]
	case path[0] == '~':
		return "", fmt.Errorf("%.80q: another user's home folder has to be written out", path)
	case path[0] != '/':
		path = filepath.Join(in.dir, path)
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

// checkKey checks an authorized_keys line (sshd(8)).
func checkKey(line string) error {
	if _, err := sshkeys.ParseAuthorized(line); err != nil {
		return fmt.Errorf("%.40q: expected an OpenSSH public key such as \"ssh-ed25519 AAAA...\": %w", line, err)
	}
	return nil
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

// checkSecretHost takes one host after the other: what a secret may go to is not left to a set.
func checkSecretHost(entry string) error {
	if name, isSet := strings.CutPrefix(entry, "@"); isSet {
		if _, known := provider.Lookup(name); known {
			return fmt.Errorf("%.80q: a secret goes to hosts, not to a set: name them, or leave hosts out and write preset = %q", entry, name)
		}
		return fmt.Errorf("%.80q: a secret goes to hosts, not to a set: name those that take it", entry)
	}
	return checkHost(entry)
}

// checkHeader takes the name of a request header, a token (RFC 9110, 5.1).
func checkHeader(name string) error {
	const token = letters + digits + "!#$%&'*+-.^`|~"
	if name == "" || len(name) > 128 || strings.Trim(name, token) != "" {
		return fmt.Errorf("%.80q: expected the name of a request header, such as x-api-key", name)
	}
	if slices.Contains(forage.FramingHeaders[:], strings.ToLower(name)) {
		return fmt.Errorf("%.80q says how a request is sent, and can't carry a secret", name)
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
