package gitrepo

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"forage"
	"forage/internal/hostexec"
)

// lookTimeout bounds a git that looks through a folder, in which somebody may have planted what never ends.
const lookTimeout = 2 * time.Minute

// errTooLong is the kind of what TooLong returns.
var errTooLong = errors.New("git took too long to look through the files")

func isTooLong(err error) bool { return errors.Is(err, errTooLong) }

// TooLong says what may be the reason that a look took too long.
func TooLong(err error) error {
	if isTooLong(err) || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, hostexec.ErrCPU) {
		return err
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "%w: %w", errTooLong, err),
		"patterns in a .gitignore or .gitattributes may take exponential time, or there are millions of files: look inside, and remove them; "+
			"`forage-ctl down --force` keeps the files without asking git")
}

// different is what differing finds. Folders have a slash at their end.
type different struct {
	files  []string // that are not as the index has them, or that it has not; what was deleted may be there twice
	closed []string // folders into which git can't look: there may be work in one
	hidden []string // files and folders that only rules ignore that are new: see Rules
}

// differing lists the files of a folder that are not as the index has them.
func (s *Shadow) differing(ctx context.Context, folder, index string, rules []string) (found different, err error) {
	args := []string{"ls-files", "-z", "-o", "--exclude-standard"}
	if len(rules) > 0 {
		args = append(args, "-x", "!.gitignore") // which may ignore itself
	}
	out, err := s.run(ctx, Call{Args: args, WorkTree: folder, Index: index, Brief: true})
	if err != nil {
		return found, TooLong(err)
	}
	for line := range strings.Lines(string(out.Stderr)) {
		said, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "warning: could not open directory '")
		if !is || strings.HasSuffix(said, ": No such file or directory") { // it was removed meanwhile
			continue
		}
		if end := strings.LastIndex(said, "': "); end >= 0 { // of a name with a line's end in it, that is the beginning
			said = said[:end]
		}
		found.closed = append(found.closed, strings.TrimSuffix(said, "/")+"/")
	}
	changed, err := s.compare(ctx, folder, index, "ls-files", "-z", "-m")
	if err != nil {
		return found, err
	}
	list := append(out.Stdout, changed...)
	hidden, ignored, err := s.hidden(ctx, folder, index, rules, list)
	found.hidden = hidden
	for name := range fields(list) {
		if !ignored[name] {
			found.files = append(found.files, name)
		}
	}
	return found, err
}

// compare runs a git that compares contents, in the form that attributes say. Contents may take their time: when it takes long, it
// goes on only if attributes don't.
func (s *Shadow) compare(ctx context.Context, folder, index string, args ...string) ([]byte, error) {
	call := Call{Args: args, WorkTree: folder, Index: index, Timeout: lookTimeout, Brief: true}
	out, err := s.Git(ctx, call)
	if !errors.Is(err, hostexec.ErrCPU) {
		return out, TooLong(err)
	}
	names, err := s.Git(ctx, Call{Args: []string{"ls-files", "-z"}, WorkTree: folder, Index: index})
	if err != nil {
		return nil, err
	}
	if _, err := s.attributes(ctx, folder, index, names, "text"); err != nil {
		return nil, err
	}
	call.Brief = false
	_ = os.Remove(index + ".lock") // of the one that was killed: nobody else works on this index
	out, err = s.Git(ctx, call)
	return out, TooLong(err)
}

// attributes asks for attributes of names, each of which ends with a zero byte, as files of a folder say them.
func (s *Shadow) attributes(ctx context.Context, folder, index string, names []byte, which ...string) ([]byte, error) {
	list, err := s.Git(ctx, Call{
		Args: append([]string{"check-attr", "-z", "--stdin"}, which...), Stdin: names, WorkTree: folder, Index: index, Brief: true,
	})
	return list, TooLong(err)
}
