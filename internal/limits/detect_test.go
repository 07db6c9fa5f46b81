package limits

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"

	"forage"
	"forage/internal/testdir"

	"github.com/google/go-cmp/cmp"
)

// tree is a host as detection sees it.
type tree struct {
	uid       int
	files     map[string]string
	writable  []string
	delegated []string
	manager   string // its control group; "" where there is no manager
}

func (h tree) environment() Environment {
	return Environment{
		UID:    h.uid,
		Getenv: func(string) string { return "" },
		ReadFile: func(path string) ([]byte, error) {
			s, ok := h.files[path]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(s), nil
		},
		Writable: func(path string) bool {
			return slices.ContainsFunc(h.writable, func(w string) bool { return path == w || strings.HasPrefix(path, w+"/") })
		},
		Delegated: func(dir string) bool { return slices.Contains(h.delegated, dir) },
		Manager: func(address string) (Manager, error) {
			if h.manager == "" {
				return nil, errors.New("connection refused")
			}
			return fakeManager{group: h.manager}, nil
		},
	}
}

// fakeManager knows where it is.
type fakeManager struct {
	Manager
	group string
}

func (m fakeManager) ControlGroup() (string, error) { return m.group, nil }
func (m fakeManager) Close()                        {}

const (
	v2Mount     = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
	hybridMount = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
		"40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
	session = "/user.slice/user-1000.slice"
	user    = session + "/user@1000.service"
)

func with(base map[string]string, more map[string]string) map[string]string {
	m := maps.Clone(base)
	maps.Copy(m, more)
	return m
}

func TestDetect(t *testing.T) {
	both := forage.Limits{MemoryMax: 1 << 30, CPUQuota: 200}
	memory := forage.Limits{MemoryMax: 1 << 30}
	laptop := map[string]string{
		"/proc/self/mountinfo": v2Mount,
		"/proc/self/cgroup":    "0::" + session + "/session-3.scope\n",
		"/proc/1/comm":         "systemd\n",
		"/sys/fs/cgroup" + user + "/cgroup.controllers": "cpu memory pids\n",
	}
	container := map[string]string{
		"/proc/self/mountinfo":                       v2Mount,
		"/proc/self/cgroup":                          "0::/job/leaf\n",
		"/proc/1/comm":                               "sh\n",
		"/sys/fs/cgroup/job/leaf/cgroup.controllers": "cpu memory\n",
		"/sys/fs/cgroup/job/leaf/cgroup.type":        "domain\n",
		"/sys/fs/cgroup/job/leaf/cgroup.procs":       "1\n77\n",
		"/sys/fs/cgroup/job/cgroup.controllers":      "cpu memory\n",
		"/sys/fs/cgroup/job/cgroup.type":             "domain\n",
		"/sys/fs/cgroup/job/cgroup.procs":            "",
	}
	v1 := map[string]string{
		"/proc/self/mountinfo": hybridMount,
		"/proc/self/cgroup":    "4:memory:/outer/x\n2:cpu,cpuacct:/\n1:name=systemd:/\n0::/\n",
		"/proc/1/comm":         "init\n",
	}
	for _, tc := range []struct {
		name   string
		host   tree
		limits forage.Limits
		want   string // the enforcer, "" if unsupported
		says   string // in the error or the trace
		hint   string // in the hint
	}{
		{"a laptop", tree{uid: 1000, files: laptop, manager: user}, both, "systemd at /run/user/1000/bus", "", ""},
		{"root on a laptop", tree{files: with(laptop, map[string]string{"/sys/fs/cgroup/cgroup.controllers": "cpu memory"}), manager: "/"}, both,
			"systemd at /run/dbus/system_bus_socket", "", ""},
		{"cpu not delegated", tree{uid: 1000, files: with(laptop, map[string]string{"/sys/fs/cgroup" + user + "/cgroup.controllers": "memory pids"}), manager: user},
			both, "", "no controller for cpuQuota", "Delegate=cpu"},
		{"cpu not delegated, not asked for", tree{uid: 1000, files: with(laptop, map[string]string{"/sys/fs/cgroup" + user + "/cgroup.controllers": "memory pids"}), manager: user},
			memory, "systemd at /run/user/1000/bus", "", ""},
		{"su, no session", tree{uid: 1000, files: laptop}, both, "", "connection refused", "su or sudo"},
		{"systemd's own folder is left alone", tree{uid: 1000, files: with(laptop, map[string]string{
			"/sys/fs/cgroup" + session + "/cgroup.controllers":     "cpu memory",
			"/sys/fs/cgroup" + session + "/cgroup.subtree_control": "cpu memory",
		}), writable: []string{"/sys/fs/cgroup"}}, both, "", "systemd's own", ""},
		{"a delegated service", tree{uid: 1000, files: with(laptop, map[string]string{
			"/proc/self/cgroup":                     "0::/svc/sub\n",
			"/sys/fs/cgroup/svc/cgroup.controllers": "cpu memory", "/sys/fs/cgroup/svc/cgroup.type": "domain",
		}), writable: []string{"/sys/fs/cgroup/svc"}, delegated: []string{"/sys/fs/cgroup/svc"}}, both, "cgroup v2 below /sys/fs/cgroup/svc", "", ""},
		{"a writable hierarchy", tree{uid: 1000, files: container, writable: []string{"/sys/fs/cgroup/job"}}, both,
			"cgroup v2 below /sys/fs/cgroup/job", "leaf: processes in it", ""},
		{"not writable", tree{uid: 1000, files: container}, both, "", "not writable", "systemd user session"},
		{"controllers on already", tree{uid: 1000, files: with(container, map[string]string{
			"/sys/fs/cgroup/job/leaf/cgroup.subtree_control": "cpu memory",
		}), writable: []string{"/sys/fs/cgroup/job"}}, both, "cgroup v2 below /sys/fs/cgroup/job/leaf", "", ""},
		{"v1 as root", tree{files: v1, writable: []string{"/sys/fs/cgroup"}}, both,
			"cgroup v1 below /sys/fs/cgroup/cpu,cpuacct and /sys/fs/cgroup/memory/outer/x", "", ""},
		{"v1 as a user", tree{uid: 1000, files: v1}, memory, "", "memory/outer/x: not writable", "unified_cgroup_hierarchy=1"},
		{"nothing mounted", tree{files: map[string]string{"/proc/self/mountinfo": "", "/proc/self/cgroup": ""}}, memory, "", "no memory hierarchy", ""},
		{"no /proc", tree{}, memory, "", "file does not exist", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			enforcer, trace, err := Detect(tc.host.environment(), tc.limits)
			all := strings.Join(trace, "; ")
			if tc.want == "" {
				if !errors.Is(err, forage.ErrUnsupported) || forage.Hint(err) == "" || !strings.Contains(forage.Hint(err), tc.hint) {
					t.Errorf("got %v, %v; hint %q", enforcer, err, forage.Hint(err))
				}
			} else if err != nil || enforcer.(interface{ String() string }).String() != tc.want {
				t.Errorf("got %v, %v\n%s", enforcer, err, all)
			}
			if !strings.Contains(all, tc.says) {
				t.Errorf("the trace does not say %q: %s", tc.says, all)
			}
		})
	}
}

func TestOwnFolder(t *testing.T) {
	h := hierarchy{unified: true, mount: "/cg"}
	for _, tc := range []struct{ root, cgroup, want string }{
		{"/", "0::/a/b\n", "/cg/a/b"},
		{"/a", "0::/a/b\n", "/cg/b"},
		{"/a", "0::/a\n", "/cg"},
		{"/a", "0::/ab\n", "/cg"},
		{"/", "0::/../outside\n", "/cg"},
		{"/", "4:memory:/x\n", "/cg"},
	} {
		if got := ownFolder(h, tc.root, tc.cgroup); !strings.HasPrefix(got, "/cg") || got != tc.want {
			t.Errorf("%+v: %s", tc, got)
		}
	}
}

func TestSettings(t *testing.T) {
	l := forage.Limits{MemoryMax: 1 << 30, CPUQuota: 150}
	want := []setting{{"memory.swap.max", "0", true}, {"memory.max", "1073741824", false}, {"cpu.max", "150000 100000", false}}
	testdir.Same(t, "", want, unifiedSettings(l), cmp.AllowUnexported(setting{}))
}
