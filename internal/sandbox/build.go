package sandbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"forage"
	"forage/internal/devcontainer"
	"forage/internal/rootfs"
	"forage/internal/sandbox/plan"
	"forage/internal/store"
	"forage/internal/supervisor"
)

// dockerfiles are the names that a project's may have.
var dockerfiles = []string{"Dockerfile", "Containerfile"}

// build makes the image that opts ask for, if they ask for one, and has opts name it.
func (s *Service) build(ctx context.Context, opts *plan.Options) error {
	if !opts.Build && !opts.Devcontainer || opts.Image != "" {
		return nil
	}
	folder, err := s.Host.Project(*opts)
	if err != nil {
		return err
	}
	var asked *devcontainer.Build
	if opts.Devcontainer {
		container, err := devcontainer.Read(folder)
		if err != nil || container.Build == nil {
			return err
		}
		asked = container.Build
	} else {
		at := slices.IndexFunc(dockerfiles, func(name string) bool { return plan.Exists(filepath.Join(folder, name)) })
		if at < 0 {
			return forage.WithHint(forage.Errorf(forage.ErrUsage, "--build: there is no Dockerfile in %s", folder), "-w names the project's folder")
		}
		asked = &devcontainer.Build{Dockerfile: dockerfiles[at], Context: "."}
	}
	made := supervisor.ImageBuild{
		Dockerfile: filepath.Join(folder, asked.Dockerfile), Context: filepath.Join(folder, asked.Context), Target: asked.Target,
		File: filepath.Join(s.buildsDir(), buildName(folder)),
	}
	if err := errors.Join(s.Host.Config.Forbid.CheckFlag("image"), s.nobodyWrites(folder), staysIn(folder, &made.Dockerfile), staysIn(folder, &made.Context)); err != nil {
		return err
	}
	if strings.HasSuffix(made.Dockerfile, ".in") { // a link's target, too
		return forage.WithHint(forage.Errorf(forage.ErrRefused, "podman and buildah would run cpp on %s, which puts files of this machine in", made.Dockerfile), "rename it")
	}
	for _, name := range slices.Sorted(maps.Keys(asked.Args)) {
		made.Args = append(made.Args, name+"="+asked.Args[name])
	}
	s.Notify("building " + made.Dockerfile + ": what it says runs in a container of the host's engine, with that one's network")
	defer s.Progress("building " + made.Dockerfile)()
	if err := made.Make(ctx); err != nil {
		return fmt.Errorf("building %s: %w", made.Dockerfile, err)
	}
	opts.Image = "oci:" + made.File
	return nil
}

// nobodyWrites refuses a folder that a running sandbox can change: by a link in the right moment it
// could have the engine take files of the host.
func (s *Service) nobodyWrites(folder string) error {
	records, err := s.Host.Readable()
	if err != nil {
		return err
	}
	for _, record := range records {
		writes := func(m forage.Mount) bool {
			return m.Writable && (rootfs.Within(folder, m.Source) || rootfs.Within(m.Source, folder))
		}
		if s.Host.Alive(record.Name) && slices.ContainsFunc(record.Plan.Spec.Mounts, writes) {
			return forage.WithHint(forage.Errorf(forage.ErrRefused, "the running sandbox %s can change %s while it is built", record.Name, folder), "stop it first")
		}
	}
	return nil
}

// staysIn makes path one without links, which has to be in folder.
func staysIn(folder string, path *string) error {
	real, err := filepath.EvalSymlinks(*path)
	if err == nil && !rootfs.Within(real, folder) {
		err = forage.Errorf(forage.ErrRefused, "%s leads out of the project", *path)
	}
	*path = real
	return err
}

// buildName is the name of a project's image: the folder's, as far as a tag of an image may have it,
// and what no other folder has.
func buildName(folder string) string {
	base := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return -1
	}, strings.ToLower(filepath.Base(folder)))
	return fmt.Sprintf("%.40s-%.6x", cmp.Or(base, "project"), sha256.Sum256([]byte(folder)))
}

// buildsDir holds the images that were built, one for each project.
func (s *Service) buildsDir() string { return filepath.Join(s.Host.Places.State, "builds") }

// pruneBuilds removes images that were built long ago and that no sandbox on record is made from.
func (c *collector) pruneBuilds(records []store.Record) error {
	entries, err := os.ReadDir(c.buildsDir())
	if err != nil {
		return nil // there are none
	}
	for _, entry := range entries {
		path := filepath.Join(c.buildsDir(), entry.Name())
		info, err := entry.Info()
		used := slices.ContainsFunc(records, func(r store.Record) bool { return r.Plan.Spec.Rootfs.Ref == path })
		if err != nil || used || time.Since(info.ModTime()) < imagesKept {
			continue
		}
		if err := c.Do("", "removed the image that was built in "+path, func() error { return os.Remove(path) }); err != nil {
			return err
		}
	}
	return nil
}
