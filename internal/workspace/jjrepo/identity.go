package jjrepo

import (
	"context"
	"strings"

	"forage/internal/hostexec"
)

// Identity asks jj for the name and mail in the caller's own configuration, and no repository's: there is none at /.
// "" where there is no jj, or nothing is set.
func Identity(ctx context.Context, home, xdg string) (name, email string) {
	get := func(key string) string {
		out, err := hostexec.Run(ctx, hostexec.Command{
			Argv: []string{"jj", "--quiet", "config", "get", key}, Env: []string{"HOME=" + home, "XDG_CONFIG_HOME=" + xdg},
		})
		if err != nil {
			return ""
		}
		return strings.TrimSpace(string(out.Stdout))
	}
	return get("user.name"), get("user.email")
}
