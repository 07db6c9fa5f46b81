package config

import (
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkLoad is what each command pays: without a file, and with the whole
// reference switched on.
func BenchmarkLoad(b *testing.B) {
	dir := b.TempDir()
	path := filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, []byte(switchedOn()), 0o600); err != nil {
		b.Fatal(err)
	}
	for name, env := range map[string]Env{
		"none":      {UID: 1000, Home: dir, SystemDir: dir + "/none"},
		"reference": {UID: 1000, Home: dir, SystemDir: dir + "/none", File: path},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Load(env); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
