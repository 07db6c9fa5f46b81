package gitrepo

import (
	"context"
	"strings"

	"forage/internal/hostexec"
)

// lineEnds are the settings that say with which line ends git writes files: git-config(1).
const lineEnds = `^core\.(autocrlf|eol)$`

// LineEnds has what works on the repository write files with the line ends that the user's git gives them there. Git is asked, since it
// alone knows what is included, where and in which order; `git config` executes nothing of what it reads.
func (r *Repository) LineEnds(ctx context.Context, u UserConfig) {
	out, err := hostexec.Run(ctx, hostexec.Command{
		Argv: []string{"git", "--git-dir=" + r.GitDir, "config", "--includes", "--null", "--get-regexp", lineEnds}, Env: u.Env,
	})
	if err != nil {
		return // nothing says so
	}
	for setting := range fields(out.Stdout) { // the last one counts
		if key, value, _ := strings.Cut(setting, "\n"); value != "" {
			r.Config[key] = []string{value}
		}
	}
}
