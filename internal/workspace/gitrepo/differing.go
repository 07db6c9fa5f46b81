package gitrepo

import (
	"context"
	"strings"
)

// differing lists the files of a folder that are not as the index has them, and those that it has not; and, each with a slash
// at its end, the folders into which git can't look: there may be work in one, of which its list says nothing.
func (s *Shadow) differing(ctx context.Context, folder, index string) (list []byte, closed []string, err error) {
	out, err := s.run(ctx, Call{
		Args: []string{"ls-files", "-z", "-m", "-o", "--exclude-standard"}, WorkTree: folder, Index: index, Timeout: lookTimeout,
	})
	for line := range strings.Lines(string(out.Stderr)) {
		said, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "warning: could not open directory '")
		if !is || strings.HasSuffix(said, ": No such file or directory") { // it was removed meanwhile
			continue
		}
		if end := strings.LastIndex(said, "': "); end >= 0 { // of a name with a line's end in it, that is the beginning
			said = said[:end]
		}
		closed = append(closed, strings.TrimSuffix(said, "/")+"/")
	}
	return out.Stdout, closed, err
}
