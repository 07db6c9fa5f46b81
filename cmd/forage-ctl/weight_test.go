package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// modules is everything that the program is linked from, and why. The same program is
// command, supervisor and guest, so each is paid for three times at every start: a module
// that is not in this table doesn't get in unnoticed.
var modules = map[string]string{
	"forage": "ourselves",
	"std":    "the standard library",

	"github.com/spf13/cobra":                        "commands, help and completion",
	"github.com/spf13/pflag":                        "flags of cobra",
	"github.com/pelletier/go-toml/v2":               "configuration for people, strictly",
	"github.com/google/renameio/v2":                 "files that are written whole or not at all",
	"github.com/godbus/dbus/v5":                     "scopes and limits are asked of systemd over D-Bus",
	"golang.org/x/time":                             "rate limits of what a sandbox may ask",
	"golang.org/x/crypto":                           "SSH, both ends",
	"kernel.org/pub/linux/libs/security/libcap/psx": "a system call on all threads, with cgo too",
	"golang.org/x/sys":                              "system calls that the standard library lacks",
	"golang.org/x/term":                             "raw terminals",
	"golang.org/x/text":                             "normal forms, for names that look alike",
	"golang.org/x/net":                              "IDNA, for host names",
	"golang.org/x/sync":                             "groups of downloads",
	"github.com/pkg/sftp":                           "copying files over SSH",
	"github.com/kr/fs":                              "walking, for sftp",
	"github.com/klauspost/compress":                 "zstd layers of images",
	"github.com/google/go-containerregistry":        "the registry protocol",
	"github.com/opencontainers/go-digest":           "part of go-containerregistry's types",
	"github.com/opencontainers/image-spec":          "part of go-containerregistry's types",
	"github.com/docker/cli":                         "logins of docker and podman, for go-containerregistry",
	"github.com/docker/docker-credential-helpers":   "logins that docker keeps in a keyring",
	"github.com/sirupsen/logrus":                    "of docker/cli",
	"github.com/libp2p/go-yamux/v5":                 "many streams over one connection to the guest",
	"github.com/tidwall/jsonc":                      "comments in devcontainer.json",
	"github.com/coder/websocket":                    "an agent's screen in a browser",
	"github.com/libp2p/go-buffer-pool":              "buffers of yamux",

	// The screen. Its packages take 0.13 ms at every start, tables of parsers and widths for the
	// most part. x/ansi from 0.11.8 on, and go-runewidth before 0.0.30, take up to 0.1 ms more.
	"charm.land/bubbletea/v2":               "the screen of pick",
	"github.com/charmbracelet/colorprofile": "colours that the terminal has, for bubbletea",
	"github.com/charmbracelet/ultraviolet":  "cells, for bubbletea",
	"github.com/charmbracelet/x/ansi":       "widths of text in cells",
	"github.com/charmbracelet/x/term":       "raw terminals, for bubbletea",
	"github.com/charmbracelet/x/windows":    "of x/term, for another system",
	"github.com/charmbracelet/x/termios":    "raw terminals, for bubbletea",
	"github.com/clipperhouse/displaywidth":  "widths of characters, for x/ansi",
	"github.com/clipperhouse/uax29/v2":      "what is one character, for x/ansi",
	"github.com/lucasb-eyer/go-colorful":    "colours, for bubbletea",
	"github.com/mattn/go-runewidth":         "widths of characters, for x/ansi",
	"github.com/muesli/cancelreader":        "reading keys that can be ended, for bubbletea",
	"github.com/rivo/uniseg":                "what is one character, for x/ansi",
	"github.com/xo/terminfo":                "what the terminal can do, for ultraviolet",
}

// heavy are packages that have no business in a program that is started for every sandbox.
var heavy = map[string]string{
	"testing":                         "registers flags and serves tests only",
	"net/http/pprof":                  "serves secrets' neighbours to whoever asks",
	"expvar":                          "registers a handler on the default server",
	"html/template":                   "large, and nothing here writes HTML",
	"encoding/gob":                    "compiles types at start",
	"k8s.io/client-go":                "11 ms at start: kubectl is driven instead",
	"github.com/docker/docker/client": "the engine is driven through its command line",
}

func TestLinkedModules(t *testing.T) {
	linked := listDeps(t, "{{if .Standard}}std{{else}}{{with .Module}}{{.Path}}{{end}}{{end}}")
	for _, module := range linked {
		if modules[module] == "" {
			t.Errorf("module %s is linked into the program, and not in the table that says why", module)
		}
	}
	for module := range modules {
		if !slices.Contains(linked, module) {
			t.Errorf("module %s is in the table, and not linked into the program", module)
		}
	}
}

func TestNothingHeavyIsLinked(t *testing.T) {
	for _, imported := range listDeps(t, "{{.ImportPath}}") {
		for pkg, why := range heavy {
			if imported == pkg || strings.HasPrefix(imported, pkg+"/") {
				t.Errorf("package %s is linked into the program: %s", imported, why)
			}
		}
	}
}

// listDeps formats every package that the program is linked from, each line once.
func listDeps(t *testing.T, format string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", format, ".")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	lines := strings.Fields(string(out))
	slices.Sort(lines)
	return slices.Compact(lines)
}
