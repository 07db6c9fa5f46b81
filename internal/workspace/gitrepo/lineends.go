package gitrepo

import (
	"context"
	"strings"

	"forage/internal/hostexec"
)

// lineEnds are the settings that say with which line ends git writes files: git-config(1).
var lineEnds = [...]string{"core.autocrlf", "core.eol"}

// LineEnds has what works on the repository write files with the line ends that the user's git gives them there. Git is asked, since it
// alone knows what is included, where and in which order; `git config` executes nothing of what it reads.
func (r *Repository) LineEnds(ctx context.Context, u UserConfig) {
	for _, key := range lineEnds {
		out, err := hostexec.Run(ctx, hostexec.Command{
			Argv: []string{"git", "--git-dir=" + r.GitDir, "config", "--includes", "--get", key}, Env: u.Env,
		})
		if value := strings.TrimSpace(string(out.Stdout)); err == nil && value != "" {
			r.Config[key] = []string{value}
		}
	}
}
