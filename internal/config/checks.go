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
		"address":        plain(checkListen),
		"argument":       plain(checkArgument),
		"basicUser":      plain(checkBasicUser),
		"cache":          oneOf(forage.CacheNames()...),
		"certificate":    plain(checkCertificate),
		"dollars":        plain(checkDollars),
		"duration":       parsed(parseDuration),
		"flag":           known("a flag that can be forbidden", forbiddableFlags[:]),
		"forbidNetwork":  oneOf("full", "restricted", "none", string(MonitorNetwork)),
		"format":         plain(checkFormat),
		"header":         plain(checkHeader),
		"home":           oneOf("kept", ephemeralHome),
		"host":           plain(checkHost),
		"inject":         oneOf("header", "bearer", "basic", "query", "placeholder", "aws-sigv4"),
		"key":            plain(checkKey),
		"keyring":        plain(checkKeyring),
		"listen":         listenText,
		"login":          oneOf("claude", "chatgpt"),
		"name":           plain(checkName),
		"network":        oneOf("full", "restricted", "none"),
		"octal":          plain(checkOctal),
		"partMode":       oneOf("direct", "git-worktree", "jj", "clone"),
		"path":           resolvePath,
		"pathOrNone":     orNone(resolvePath),
		"pattern":        plain(checkPattern),
		"percent":        parsed(parsePercent),
		"port":           between(1, 65535, "a port, 1 to 65535"),
		"positive":       between(1, math.MaxInt64, "at least 1"),
		"prefix":         plain(checkPrefix),
		"preset":         known("a preset", provider.Names()),
		"privateHost":    plain(checkPrivateHost),
		"proxy":          plain(checkProxy),
		"query":          plain(checkQuery),
		"repo":           repoText,
		"rootfs":         rootfsText,
		"runtime":        known("a runtime", runtimes[:]),
		"secretHost":     plain(checkSecretHost),
		"secretMode":     oneOf("inject", string(forage.SecretsWrapped)),
		"set":            plain(checkSetName),
		"size":           parsed(parseSize),
		"target":         plain(forage.CheckTarget),
		"terminal":       oneOf("clipboard", "title"),
		"text":           plain(checkText),
		"uid":            between(0, math.MaxUint32-1, "a user's number"),
		"user":           plain(checkUser),
		"variable":       plain(checkVariable),
		"variableOrNone": orNone(plain(checkVariable)),
	}
})

func plain(is func(string) error) check {
	return func(text string, _ surroundings) (string, error) { return text, is(text) }
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

func checkVariable(name string) error {
	if !isEnvName(name) {
		return fmt.Errorf("%.80q is not a variable's name", name)
	}
	return nil
}

// checkUser takes what useradd(8) takes for a login name.
func checkUser(name string) error {
	if !isName(strings.TrimSuffix(name, "$"), letters, letters+digits+".-") {
		return fmt.Errorf("%.80q is not a user's name", name)
	}
	return nil
}

func checkPrefix(text string) error {
	if len(text) > 32 || !isName(text, lower+digits, lower+digits+"-") {
		return fmt.Errorf("%.80q: expected up to 32 of a-z, 0-9 and -", text)
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

func checkDollars(text string) error {
	if cost, err := strconv.ParseFloat(text, 64); err != nil || !(cost > 0) || math.IsInf(cost, 0) {
		return errors.New("expected US dollars, more than 0, such as 5 or 2.50")
	}
	return nil
}

func checkOctal(text string) error {
	if mode, err := strconv.ParseUint(text, 8, 32); err != nil || mode > 0o777 || mode&0o600 != 0o600 {
		return fmt.Errorf("%.80q: expected permissions in octal such as \"0660\"", text)
	}
	return nil
}

// checkPrivateHost takes a name or a suffix, without a port.
func checkPrivateHost(text string) error {
	name := strings.TrimPrefix(text, "*.")
	if canonical, err := policy.Canonical(name); err != nil || canonical != name {
		return fmt.Errorf("%.80q: expected a name in lower case, or *.suffix, without a port", text)
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

func checkKeyring(text string) error {
	service, user, ok := strings.Cut(text, "/")
	if !ok || service == "" || user == "" || strings.ContainsFunc(text, isControl) {
		return fmt.Errorf("%.80q: expected service/user", text)
	}
	return nil
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

func checkFormat(text string) error {
	if strings.Count(text, "{}") != 1 || strings.ContainsFunc(text, isControl) || len(text) > 1024 {
		return fmt.Errorf(`%.80q: expected text with {} once, in the place of the value, such as "Bearer {}"`, text)
	}
	return nil
}

func checkQuery(name string) error {
	if name == "" || len(name) > 128 || strings.ContainsFunc(name, isControl) {
		return fmt.Errorf("%.80q: expected the name of a parameter, such as key", name)
	}
	return nil
}

// checkBasicUser takes a user of basic authentication (RFC 7617, 2).
func checkBasicUser(name string) error {
	if strings.Contains(name, ":") || strings.ContainsFunc(name, isControl) || len(name) > 256 {
		return fmt.Errorf("%.80q: expected a user's name, without a colon", name)
	}
	return nil
}

func isControl(r rune) bool { return r < 0x20 || r == 0x7f }
