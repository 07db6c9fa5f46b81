package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/rootfs"
)

// bwrap is bare bubblewrap with what our sandboxes are made of: the same view of the
// host, the same namespaces, nothing behind it.
func (b *bench) bwrap() contestant {
	args, err := b.bwrapArgs()
	if err != nil {
		return absent("planning the mounts: %v", err)
	}
	return b.peer(append(args, "true")...).times
}

// bwrapBare is bubblewrap with so little that a program just starts.
func (b *bench) bwrapBare() contestant {
	args := append(bwrapBegin(), "--ro-bind", "/usr", "/usr")
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		args = append(args, "--symlink", "usr/"+link, "/"+link)
	}
	return b.peer(append(append(args, b.bwrapEnd()...), "true")...).times
}

// bwrapBegin and bwrapEnd are what is around the view of the host.
func bwrapBegin() []string {
	return []string{"bwrap", "--unshare-all", "--die-with-parent", "--new-session", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin"}
}

func (b *bench) bwrapEnd() []string {
	return []string{"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run", "--dir", forage.HomePath,
		"--bind", b.project, forage.WorkspacePath, "--chdir", forage.WorkspacePath, "--"}
}

func (b *bench) bwrapArgs() ([]string, error) {
	who := forage.Identity{User: forage.UserName, UID: os.Getuid(), GID: os.Getgid(), Home: forage.HomePath, HostUID: os.Getuid(), HostGID: os.Getgid()}
	view, err := rootfs.Host(os.DirFS("/"), "bench", who)
	if err != nil {
		return nil, err
	}
	args := bwrapBegin()
	slices.SortStableFunc(view.Mounts, func(x, y forage.Mount) int { return len(x.Target) - len(y.Target) })
	for _, m := range view.Mounts {
		args = append(args, "--ro-bind", m.Source, m.Target)
	}
	for _, l := range view.Links {
		args = append(args, "--symlink", l.Target, l.Path)
	}
	for i, f := range view.Files {
		path := filepath.Join(b.dir, fmt.Sprintf("file-%d", i))
		if err := os.WriteFile(path, f.Content, 0o644); err != nil {
			return nil, err
		}
		args = append(args, "--ro-bind", path, f.Path)
	}
	return append(args, b.bwrapEnd()...), nil
}

// runc is a rootless container with the host's /usr and the workspace bound in.
func (b *bench) runc(ctx context.Context) contestant {
	bundle := filepath.Join(b.dir, "bundle")
	if err := b.runcBundle(ctx, bundle); err != nil {
		return absent("%v", err)
	}
	count := 0
	return func(ctx context.Context) (time.Duration, error) {
		count++
		c := b.peer("runc", "--root", filepath.Join(b.dir, "runc"), "run", fmt.Sprintf("forage-bench-%d-%d", os.Getpid(), count))
		c.dir = bundle
		return c.times(ctx)
	}
}

func (b *bench) runcBundle(ctx context.Context, bundle string) error {
	if err := os.MkdirAll(filepath.Join(bundle, "rootfs/usr"), 0o755); err != nil {
		return err
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(bundle, "rootfs", link)); err != nil {
			return err
		}
	}
	spec := b.peer("runc", "spec", "--rootless")
	spec.dir = bundle
	if err := spec.run(ctx); err != nil {
		return err
	}
	path := filepath.Join(bundle, "config.json")
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var config map[string]any
	if err := json.Unmarshal(raw, &config); err != nil {
		return err
	}
	if err := b.changeRuncConfig(config); err != nil {
		return err
	}
	if raw, err = json.Marshal(config); err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// changeRuncConfig makes the specification that runc writes run `true`, without a
// terminal, with a network namespace as ours has one.
func (b *bench) changeRuncConfig(config map[string]any) error {
	process, ok1 := config["process"].(map[string]any)
	mounts, ok2 := config["mounts"].([]any)
	linux, ok3 := config["linux"].(map[string]any)
	if !ok1 || !ok2 || !ok3 {
		return fmt.Errorf("runc spec wrote something unexpected")
	}
	process["terminal"], process["args"] = false, []string{"true"}
	config["mounts"] = append(mounts,
		map[string]any{"destination": "/usr", "type": "bind", "source": "/usr", "options": []string{"rbind", "ro"}},
		map[string]any{"destination": forage.WorkspacePath, "type": "bind", "source": b.project, "options": []string{"rbind", "rw"}})
	namespaces, _ := linux["namespaces"].([]any)
	linux["namespaces"] = append(namespaces, map[string]any{"type": "network"})
	return os.MkdirAll(filepath.Join(b.dir, "bundle/rootfs", forage.WorkspacePath), 0o755)
}

// srt is sandbox-runtime, with a policy that, like ours, needs its proxies.
func (b *bench) srt() contestant {
	program := filepath.Join(peersDir(), "node_modules/.bin/srt")
	if _, err := os.Stat(program); err != nil {
		return absent("sandbox-runtime is not installed: run bench/peers.sh")
	}
	settings := filepath.Join(b.dir, "srt.json")
	const text = `{"filesystem":{"denyRead":[],"allowWrite":["."],"denyWrite":[]},"network":{"allowedDomains":["example.org"],"deniedDomains":[]}}`
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		return absent("%v", err)
	}
	return b.peer(program, "--settings", settings, "true").times
}

// coldStart is one command in a sandbox that is made for it.
func (b *bench) coldStart(ctx context.Context) ([]row, error) {
	s := interleave(ctx, b.o.runs, b.forage("run", "-w", b.project, "--", "true").times, b.bwrap(), b.runc(ctx), b.srt(), b.bwrapBare(),
		b.earlier("run", "-w", b.project, "--", "true").times)
	return []row{
		compare("cold start, and that of an earlier version", s[0], s[5], noGoal),
		compare("cold start, `run -- true`, and bare bubblewrap with the same view and namespaces", s[0], s[1], atMost(4)),
		compare("cold start, and bare bubblewrap with /usr and the workspace only", s[0], s[4], atMost(4)),
		compare("cold start, and runc (rootless, /usr bound)", s[0], s[2], noGoal),
		compare("cold start, and sandbox-runtime (`srt true`)", s[0], s[3], atMost(0.05)),
	}, nil
}

// execInRunning is one command in a sandbox that runs already.
func (b *bench) execInRunning(ctx context.Context) ([]row, error) {
	return b.withSandbox(ctx, "bench-exec", nil, func() ([]row, error) {
		if b.o.before != "" {
			if err := b.earlier("up", "bench-exec", "-w", b.project, "--", "sleep", "infinity").run(ctx); err != nil {
				return nil, err
			}
			defer b.earlier("down", "--all", "--force").run(context.WithoutCancel(ctx))
		}
		exec := []string{"exec", "bench-exec", "--", "true"}
		s := interleave(ctx, b.o.runs, b.forage(exec...).times, b.forage("run", "-w", b.project, "--", "true").times, b.earlier(exec...).times)
		return []row{
			compare("`exec -- true` in a running sandbox, and our own cold start", s[0], s[1], atMost(0.5)),
			compare("`exec -- true`, and that of an earlier version", s[0], s[2], noGoal),
		}, nil
	})
}

// inSystemFolders reports whether every sandbox sees path.
func inSystemFolders(path string) bool {
	for _, dir := range []string{"/usr/", "/bin/", "/sbin/", "/opt/", "/nix/store/"} {
		if strings.HasPrefix(path, dir) {
			return true
		}
	}
	return false
}
