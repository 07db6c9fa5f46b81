package rootfs

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkTools is a PATH of 15 entries.
func BenchmarkTools(b *testing.B) {
	lines := []string{".keep"}
	var path []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf(".local/bin/tool%d -> HOME/.local/share/uv/tools/t%d/bin/tool", i, i), fmt.Sprintf(".local/share/uv/tools/t%d/bin/tool! x", i))
	}
	lines = append(lines, ".cargo/bin/cargo! x", ".rustup/toolchains/stable/x", ".rustup/settings.toml", ".nvm/versions/node/v22/bin/node! x", ".pyenv/shims/python! x", ".pyenv/version: 3.12.1", ".pyenv/versions/3.12.1/bin/python! x", "go/bin/x! x")
	dir := home(b, lines...)
	for _, entry := range []string{"/.local/bin", "/.cargo/bin", "/.nvm/versions/node/v22/bin", "/.pyenv/shims", "/go/bin", "/gone", "/other"} {
		path = append(path, dir+entry)
	}
	path = append(path, "/usr/local/go/bin", "/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin", "/usr/games")
	caller := Caller{Path: strings.Join(path, ":"), Home: dir, Hostile: []string{dir + "/work"}, Project: dir + "/work", Inside: "/h"}
	for b.Loop() {
		if _, _, err := Tools(nil, caller); err != nil {
			b.Fatal(err)
		}
	}
}
