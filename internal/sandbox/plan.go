package sandbox

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"forage"
	"forage/internal/config"
	"forage/internal/sshkeys"
	"forage/internal/workspace/direct"
)

// Plan decides everything about one sandbox from configuration and opts, and
// changes nothing. Notes are what the user should know before it starts.
func (s *Service) Plan(ctx context.Context, opts Options) (forage.Plan, []string, error) {
	p := &planner{service: s, opts: opts}
	for _, step := range []func(context.Context) error{
		p.name, p.template, p.workspace, p.project, p.flags, p.identity, p.command,
		p.runtime, p.rootfs, p.environment, p.mounts, p.keys, p.check,
	} {
		if err := step(ctx); err != nil {
			return forage.Plan{}, nil, err
		}
	}
	return p.plan, p.notes, nil
}
