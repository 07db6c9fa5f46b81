package gitrepo

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"forage/internal/deadline"
	"forage/internal/hostexec"
	"forage/internal/hostile"
	"forage/internal/workspace"
)

// Shadow is a git directory of our own over the objects and refs of a repository, for as
// long as it is not closed.
type Shadow struct {
	Repository *Repository
	Dir        string
	objects    []string      // folders of ours to which it writes objects (the first), and where it finds more; none: the repository's own
	passing    string        // that of objects which goes with the shadow; "" is none
	shown      []string      // commits that are safe though no ref leads to them: see Heads
	brief      time.Duration // in the place of briefCPU, for tests
}

// shared are what a shadow has of its repository, by links: gitrepository-layout(5). Not
// config, hooks, info or modules, in which git finds what to execute.
var shared = [...]string{"objects", "refs", "packed-refs", "shallow", "logs"}

// carried are the settings that a shadow takes from the repository: what decides how files
// look in the working folder and in the repository, and nothing that names a program or a path.
var carried = [...]string{
	"core.repositoryformatversion", "core.sharedrepository", "core.autocrlf", "core.eol", "core.filemode",
	"core.symlinks", "core.ignorecase", "core.precomposeunicode", "core.protecthfs", "core.protectntfs",
	"core.bigfilethreshold", "core.compression", "core.trustctime", "core.checkstat",
	"extensions.objectformat",
}

// settings are ours, in every shadow: nothing is executed, nothing is fetched, nothing is
// collected, what comes in is checked, and who finds a ref locked waits.
var settings = []string{
	"core.hooksPath=/dev/null", "core.fsmonitor=false", "core.untrackedCache=false",
	"core.attributesFile=/dev/null", "core.excludesFile=/dev/null", "core.quotePath=false",
	"core.filesRefLockTimeout=10000", "core.packedRefsTimeout=10000", "core.logAllRefUpdates=true",
	"gc.auto=0", "maintenance.auto=false", "gc.pruneExpire=never",
	"protocol.allow=never",
	"checkout.workers=4", // twice as quick where the disk is slow
	"submodule.recurse=false", "diff.ignoreSubmodules=all", "status.submoduleSummary=false",
	"commit.gpgSign=false", "tag.gpgSign=false", "log.showSignature=false", "merge.verifySignatures=false",
	"safe.bareRepository=explicit", "advice.detachedHead=false",
}

// Shadow makes one below scratch, which is made too if it isn't there.
func (r *Repository) Shadow(scratch string) (_ *Shadow, err error) {
	dir, err := workspace.MakeScratch(scratch, "git")
	if err != nil {
		return nil, fmt.Errorf("making a shadow of %s: %w", r.Common, err)
	}
	s := &Shadow{Repository: r, Dir: dir}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	for _, name := range shared {
		if name == "logs" && !r.hasLogs() {
			continue
		}
		link := s.link
		if name == "logs" && r.GitDir != r.Common {
			link = s.linkLogs
		}
		if err := link(name); err != nil {
			return nil, err
		}
	}
	head, err := readSmall(filepath.Join(r.GitDir, "HEAD"))
	if err != nil {
		return nil, err
	}
	return s, errors.Join(
		os.WriteFile(filepath.Join(dir, "HEAD"), head, 0o600),
		os.WriteFile(filepath.Join(dir, "config"), []byte(r.shadowConfig()), 0o600),
		s.copyExcludes())
}

func (s *Shadow) link(name string) error {
	return os.Symlink(filepath.Join(s.Repository.Common, name), filepath.Join(s.Dir, name))
}

// linkLogs links the logs of a linked worktree: that of its HEAD is its own, where the others are
// everybody's.
func (s *Shadow) linkLogs(name string) error {
	r := s.Repository
	return errors.Join(
		os.Mkdir(filepath.Join(s.Dir, name), 0o700),
		os.MkdirAll(filepath.Join(r.Common, name, "refs"), 0o777),
		os.MkdirAll(filepath.Join(r.GitDir, name), 0o777),
		os.Symlink(filepath.Join(r.Common, name, "refs"), filepath.Join(s.Dir, name, "refs")),
		os.Symlink(filepath.Join(r.GitDir, name, "HEAD"), filepath.Join(s.Dir, name, "HEAD")))
}

// copyExcludes takes over what the user has git ignore in this repository: patterns, no more.
func (s *Shadow) copyExcludes() error {
	text, err := readSmall(filepath.Join(s.Repository.Common, "info/exclude"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return errors.Join(
		os.Mkdir(filepath.Join(s.Dir, "info"), 0o700),
		os.WriteFile(filepath.Join(s.Dir, "info/exclude"), text, 0o600))
}

// Ignore has the shadow's git ignore one more pattern.
func (s *Shadow) Ignore(pattern string) (err error) {
	if err := os.MkdirAll(filepath.Join(s.Dir, "info"), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(s.Dir, "info/exclude"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString("\n" + pattern + "\n") // the user's text may lack its last line end
	return errors.Join(err, file.Close())
}

// hasLogs says whether the repository keeps reflogs: a bare one usually doesn't.
func (r *Repository) hasLogs() bool {
	_, err := os.Stat(filepath.Join(r.Common, "logs"))
	return err == nil
}

// shadowConfig is the whole configuration of a shadow, in the syntax of git-config(1).
func (r *Repository) shadowConfig() string {
	c := configText{}
	for _, entry := range settings {
		key, value, _ := strings.Cut(entry, "=")
		c.set(key, value)
	}
	if !r.hasLogs() {
		c.set("core.logAllRefUpdates", "false")
	}
	for _, key := range carried {
		if value := r.last(key); value != "" {
			c.set(key, value)
		}
	}
	return c.String()
}

// Quote writes a value as git-config(1) reads it back.
func Quote(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\x00", "").Replace(value) + `"`
}

// Close removes the shadow; of the repository it removes nothing.
func (s *Shadow) Close() error {
	if s.passing != "" {
		return errors.Join(hostile.RemoveAll(s.passing), hostile.RemoveAll(s.Dir))
	}
	return hostile.RemoveAll(s.Dir)
}

// Call is one git command in a shadow.
type Call struct {
	Args     []string
	Stdin    []byte    // whole: what git reads is small, or comes from a file by name
	Input    io.Reader // in the place of Stdin: what is too big to hold
	WorkTree string    // GIT_WORK_TREE; "" for commands that need none
	Index    string    // GIT_INDEX_FILE; "" is the shadow's own, which is empty at first
	Env      []string
	Timeout  time.Duration // 0 is deadline.Progress, or for one that is brief deadline.Answer
	Memory   uint64        // bytes that git may have; 0 is callMemory
	CPU      time.Duration // of the processor; 0 is without a bound
	Brief    bool          // it compares names with patterns from inside: see briefCPU
	Output   int           // bytes of stdout that are kept; more is an error. 0 is callOutput
	Writer   io.Writer     // gets stdout in the place of that
}

// Bounds of a Call that names none.
const (
	callOutput = 256 << 20
	// callMemory is what one git may have: a .gitignore is read as a whole, and what a tree names
	// is held at once.
	callMemory = 4 << 30
	// briefCPU is how much of the processor's time a git may take that only compares names with
	// patterns: a hundred thousand files take a fraction of a second, and a pattern from inside can
	// take for ever.
	briefCPU = 5 * time.Second
)

// Git runs git in the shadow and returns what it wrote to stdout. An error has git's own words,
// which may hold names from inside: escape them.
func (s *Shadow) Git(ctx context.Context, c Call) ([]byte, error) {
	out, err := s.run(ctx, c)
	return out.Stdout, err
}

func (s *Shadow) run(ctx context.Context, c Call) (hostexec.Output, error) {
	// git bounds each of its allocations by itself, from the first on; the kernel bounds their sum.
	env := append(environment(), "GIT_DIR="+s.Dir, "GIT_ALLOC_LIMIT="+strconv.Itoa(callMemory))
	if c.WorkTree != "" {
		env = append(env, "GIT_WORK_TREE="+c.WorkTree)
	}
	if c.Index != "" {
		env = append(env, "GIT_INDEX_FILE="+c.Index)
	}
	timeout, bound, cpu := cmp.Or(c.Timeout, deadline.Progress), c.Output, c.CPU
	if c.Brief {
		timeout, cpu = cmp.Or(c.Timeout, deadline.Answer), cmp.Or(s.brief, briefCPU)
	}
	if bound == 0 {
		bound = callOutput
	}
	dir := c.WorkTree
	if dir == "" {
		dir = s.Dir
	}
	out, err := hostexec.Run(ctx, hostexec.Command{Locks: true, Outlives: c.Args[0] == "update-ref" || c.Args[0] == "fast-import",
		Argv: append([]string{"git"}, c.Args...), Env: append(env, c.Env...), Dir: dir,
		Stdin: c.Stdin, Input: c.Input, Timeout: timeout, Output: bound + 1, Memory: cmp.Or(c.Memory, callMemory), CPU: cpu, Writer: c.Writer,
	})
	if err != nil {
		return out, gitError(err, out)
	}
	if len(out.Stdout) > bound {
		return hostexec.Output{}, fmt.Errorf("git %s: it has more than %d bytes to say", c.Args[0], bound)
	}
	return out, nil
}

// Line is Git for commands that answer with one line.
func (s *Shadow) Line(ctx context.Context, args ...string) (string, error) {
	out, err := s.Git(ctx, Call{Args: args})
	return strings.TrimSpace(string(out)), err
}

// environment is all that git sees of ours: no configuration but the shadow's, nobody to ask, no
// program to start.
func environment() []string {
	return []string{
		"HOME=/nonexistent", "XDG_CONFIG_HOME=/nonexistent",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_ATTR_NOSYSTEM=1",
		"GIT_TERMINAL_PROMPT=0", "GIT_PAGER=cat", "GIT_EDITOR=false", "GIT_SEQUENCE_EDITOR=false",
		"GIT_ASKPASS=false", "SSH_ASKPASS=false", "GIT_SSH_COMMAND=false",
		"GIT_NO_LAZY_FETCH=1", "GIT_NO_REPLACE_OBJECTS=1", "GIT_LITERAL_PATHSPECS=1", "GIT_OPTIONAL_LOCKS=0",
		"GIT_CEILING_DIRECTORIES=/", "GIT_ADVICE=0",
	}
}

// gitError puts git's own words in front.
func gitError(err error, out hostexec.Output) error {
	if said := strings.TrimSpace(string(out.Stderr)); said != "" {
		return fmt.Errorf("%s (%w)", said, err)
	}
	return err
}
