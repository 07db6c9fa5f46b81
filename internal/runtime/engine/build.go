package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"forage"
	"forage/internal/hostexec"
)

// Build says what image to make. Paths are absolute.
type Build struct {
	Dockerfile, Context string
	Target              string
	Args                []string // "NAME=VALUE"
	File                string   // where the image goes, as `docker save` writes it
}

// buildTime is how long a build may take.
const buildTime = time.Hour

// findBuilder is the first of what makes images that works here.
func findBuilder(ctx context.Context) (client, error) {
	var errs []error
	for _, builder := range []client{Docker, Podman, "buildah"} {
		if _, err := hostexec.Find(string(builder)); err != nil {
			continue
		}
		_, err := builder.run(ctx, nil, "version")
		if err == nil {
			return builder, nil
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return "", errs[0]
	}
	return "", forage.WithHint(forage.Errorf(forage.ErrUnsupported, "there is no docker, podman or buildah to build an image with"), "install one of them")
}

// Make has the host's docker, podman or buildah make an image. What the Dockerfile says runs there,
// with the engine's network.
func (b Build) Make(ctx context.Context) error {
	builder, err := findBuilder(ctx)
	if err != nil {
		return err
	}
	scratch := b.File + ".new"
	tag := "forage-build:" + filepath.Base(b.File)
	build := []string{"build", "--tag", tag, "--file", b.Dockerfile}
	if b.Target != "" {
		build = append(build, "--target", b.Target)
	}
	for _, arg := range b.Args {
		build = append(build, "--build-arg", arg)
	}
	save := []string{"save", "--output", scratch, tag}
	switch builder {
	case Podman:
		save = []string{"save", "--quiet", "--format", "docker-archive", "--output", scratch, tag}
	case "buildah":
		save = []string{"push", "--quiet", tag, "docker-archive:" + scratch}
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(b.File), 0o700), os.RemoveAll(scratch)); err != nil {
		return err
	}
	defer os.Remove(scratch)
	for _, args := range [][]string{append(build, b.Context), save} {
		command := hostexec.Command{Argv: append([]string{string(builder)}, args...), Env: environment(), Timeout: buildTime}
		if out, err := hostexec.Run(ctx, command); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return builder.explain(err, string(out.Stderr))
		}
	}
	return os.Rename(scratch, b.File)
}
