package rootfs

import (
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"
)

func TestCaches(t *testing.T) {
	for _, tc := range []struct {
		name  string
		files []string
		env   map[string]string
		names []string // nil: all
		want  []string
	}{
		{"each at its usual place, without what lies beside it",
			[]string{"go/pkg/mod/cache/x", "go/bin/x", ".cargo/registry/cache/x", ".cargo/credentials.toml: token", ".npm/_cacache/x", ".npm/_logs/x", ".cache/pip/http/x", ".cache/uv/x",
				".m2/repository/x", ".m2/settings.xml: token", ".m2/wrapper/dists/x", ".gradle/caches/modules-2/x", ".gradle/gradle.properties: token"}, nil, nil,
			[]string{"HOME/go/pkg/mod at /h/go/pkg/mod", "HOME/.cargo/registry at /h/.cargo/registry", "HOME/.npm/_cacache at /h/.npm/_cacache", "HOME/.cache/pip at /h/.cache/pip", "HOME/.cache/uv at /h/.cache/uv",
				"HOME/.m2/repository at /h/.m2/repository", "HOME/.m2/wrapper/dists at /h/.m2/wrapper/dists", "HOME/.gradle/caches/modules-2 at /h/.gradle/caches/modules-2"}},
		{"by variables", []string{"a/x", "b/registry/x", "c/_cacache/x", "d/x", "e/uv/x", "go/pkg/mod/x"},
			map[string]string{"GOMODCACHE": "HOME/a", "CARGO_HOME": "HOME/b", "npm_config_cache": "HOME/c", "PIP_CACHE_DIR": "HOME/d", "XDG_CACHE_HOME": "HOME/e"}, nil,
			[]string{"HOME/a at /h/go/pkg/mod", "HOME/b/registry at /h/.cargo/registry", "HOME/c/_cacache at /h/.npm/_cacache", "HOME/d at /h/.cache/pip", "HOME/e/uv at /h/.cache/uv"}},
		{"go's own file", []string{".config/go/env: GOPROXY=x\\nGOPATH=HOME/p:HOME/q\\n", "p/pkg/mod/x"}, nil, nil, []string{"HOME/p/pkg/mod at /h/go/pkg/mod"}},
		{"a relative path is none", []string{"go/pkg/mod/x"}, map[string]string{"GOMODCACHE": "work"}, nil, nil},
		{"the home", []string{"x"}, map[string]string{"PIP_CACHE_DIR": "HOME", "UV_CACHE_DIR": "/"}, nil, []string{"pip: it holds more than a cache", "uv: it holds more than a cache"}},
		{"credentials in it", []string{"c/x", "c/pip.conf: token"}, map[string]string{"PIP_CACHE_DIR": "HOME/c"}, nil, []string{"pip: it holds pip.conf, which can have credentials"}},
		{"in the workspace", []string{"work/c/x"}, map[string]string{"PIP_CACHE_DIR": "HOME/work/c"}, nil, []string{"pip: sandboxes write to it"}},
		{"by a link of the workspace's", []string{"work/c -> ../.ssh", ".ssh/id"}, map[string]string{"PIP_CACHE_DIR": "HOME/work/c"}, nil, []string{"pip: sandboxes write to it"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := home(t, append(tc.files, ".keep")...)
			inHome := func(s string) string { return strings.ReplaceAll(s, "HOME", dir) }
			caller := Caller{Home: dir, Hostile: []string{dir + "/work"}, Getenv: func(name string) (string, bool) { v, ok := tc.env[name]; return inHome(v), ok }}
			names := tc.names
			if names == nil {
				names = forage.CacheNames()
			}
			mounts, found := Caches(names, caller, "/h")
			var got []string
			for _, m := range mounts {
				if !m.Layered || m.Writable || m.System {
					t.Errorf("%+v", m)
				}
				got = append(got, m.Source+" at "+m.Target)
			}
			for _, f := range found {
				if (f.Shown == "") != (f.Why != "") {
					t.Errorf("%+v", f)
				}
				if f.Why != "" {
					got = append(got, f.Name+": "+f.Why)
				}
			}
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir, "HOME")
			}
			testdir.Same(t, "", tc.want, got)
		})
	}
}

// TestCacheNames: the configuration can name exactly the caches that there are.
func TestCacheNames(t *testing.T) {
	var names []string
	for _, c := range caches {
		names = append(names, c.name)
	}
	testdir.Same(t, "", forage.CacheNames(), names)
}
