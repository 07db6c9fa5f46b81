package review

import (
	"cmp"
	"context"
	"strings"

	"forage/internal/hostexec"
	"forage/internal/workspace/gitrepo"
)

// identity makes commits.
type identity struct {
	env  []string
	sign []string // arguments of git before commit-tree; nil: it doesn't sign
	keys []string // environment in which the user's keys are found
}

// nobody makes the commits that stay in staging.
var nobody = identity{env: identityEnv("", "", "AUTHOR", "COMMITTER")}

func identityEnv(name, email string, roles ...string) (env []string) {
	for _, role := range roles {
		env = append(env, "GIT_"+role+"_NAME="+cmp.Or(name, "forage"), "GIT_"+role+"_EMAIL="+cmp.Or(email, "forage@localhost"))
	}
	return env
}

// identity is who the user is in a repository of theirs, by what its configuration and theirs say. git is asked, since it alone
// knows what is included and where; none of what is asked executes anything.
func (s *Session) identity(ctx context.Context, repo *gitrepo.Repository, o Options) identity {
	ask := func(args ...string) (string, error) {
		out, err := hostexec.Run(ctx, hostexec.Command{
			Argv: append([]string{"git", "--git-dir=" + repo.GitDir, "-c", "user.useConfigOnly=true"}, args...), Env: s.subject.Git.Env,
		})
		return string(out.Stdout), err
	}
	var who identity
	for _, role := range []string{"AUTHOR", "COMMITTER"} {
		name, email := o.Name, o.Email
		if text, err := ask("var", "GIT_"+role+"_IDENT"); err == nil { // NAME <EMAIL> SECONDS ZONE
			if before, after, ok := strings.Cut(text, " <"); ok {
				name, email = before, strings.SplitN(after, ">", 2)[0]
			}
		}
		who.env = append(who.env, identityEnv(name, email, role)...)
	}
	if signs, _ := ask("config", "--type=bool", "--get", "commit.gpgsign"); strings.TrimSpace(signs) != "true" || o.DryRun {
		return who
	}
	list, err := ask("config", "--show-scope", "--null", "--get-regexp", `^(user\.signingkey|gpg\..*)$`)
	if err != nil && list != "" {
		s.unsigned = err.Error()
		return who
	}
	fields := strings.Split(strings.TrimSuffix(list, "\x00"), "\x00")
	for ; len(fields) >= 2; fields = fields[2:] {
		key, value, _ := strings.Cut(fields[1], "\n")
		if scope := fields[0]; (scope == "local" || scope == "worktree") && (strings.HasSuffix(key, "program") || strings.HasSuffix(key, "command")) {
			s.unsigned = "the configuration of this repository names the program that signs, and nothing that a repository names is executed"
			who.sign = nil
			return who
		}
		who.sign = append(who.sign, "-c", key+"="+value)
	}
	who.sign, who.keys = append(who.sign, "-c", "user.useConfigOnly=true"), s.subject.Git.Env
	return who
}

// commitTree makes a commit. One that the user would have signed and that can't be is made without, which is noted.
func (s *Session) commitTree(ctx context.Context, who identity, tree, message string, parents ...string) (string, error) {
	args := []string{"commit-tree", tree, "-F", "-"}
	for _, parent := range parents {
		if parent != "" {
			args = append(args, "-p", parent)
		}
	}
	call := gitrepo.Call{Args: args, Stdin: []byte(message + "\n"), Env: who.env}
	if who.sign != nil {
		signed := call
		signed.Args = append(append([]string{}, who.sign...), append(args, "-S")...)
		signed.Env = append(append([]string{}, who.env...), who.keys...)
		id, err := s.staging.Git(ctx, signed)
		if err == nil || ctx.Err() != nil {
			return strings.TrimSpace(string(id)), err
		}
		s.unsigned = err.Error()
	}
	id, err := s.staging.Git(ctx, call)
	return strings.TrimSpace(string(id)), err
}
