package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"forage/internal/term"
)

// version is set by the linker (-X main.version=...); a build without it takes
// what the Go tool knows.
var version string

type versionInfo struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func newVersion(a *app) *cobra.Command {
	var f format
	c := &cobra.Command{
		Use:               "version",
		Short:             "Print the version",
		Example:           "forage-ctl version -o json",
		Args:              noArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return runVersion(a, f) },
	}
	f.add(c)
	return c
}

func runVersion(a *app, f format) error {
	info := thisVersion()
	if f.json(a) {
		return term.JSON(a.out, info)
	}
	_, err := fmt.Fprintf(a.out, "forage-ctl %s (%s, %s)\n", info.Version, info.Go, info.Platform)
	return err
}

func thisVersion() versionInfo {
	info := versionInfo{Version: version, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			info.Revision = setting.Value
		}
	}
	if info.Version == "" {
		info.Version = build.Main.Version
	}
	return info
}
