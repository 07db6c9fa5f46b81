package gitrepo

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/renameio/v2"

	"forage"
)

// Heads are what jj says of a repository. They are noted as a git directory of ours, so that all
// works as where git says what there is.
type Heads struct {
	Of     string   // what jj was asked about: as long as it is the same, so are Work and Others
	Work   string   // the commit inside that stands for the work; "" is none
	Others []string // other commits inside that nothing else inside leads to
	Host   []string // such commits of the user's repository: what they lead to is safe
}

// Names of what is in private metadata for Heads, where the sandbox can't write.
const (
	headsFolder = "heads" // a git directory without objects
	headsOf     = "of"
	headsHost   = "host"
	workRef     = "refs/work"
	commitRefs  = "refs/commits/"
)

func noted(w forage.Workspace, name string) string {
	return filepath.Join(w.Repository.Dir, headsFolder, name)
}

// NoteHeads notes them. With an error in their place, work inside counts as unknown.
func NoteHeads(w forage.Workspace, heads Heads, failed error) error {
	refs := make(map[string]string)
	for _, id := range heads.Others {
		refs[commitRefs+id] = id
	}
	if heads.Work != "" {
		refs[workRef] = heads.Work
	}
	files := [][2]string{
		{"packed-refs", packed(refs)}, {headsHost, strings.Join(heads.Host, "\n")}, {"HEAD", "ref: " + workRef + "\n"}, {headsOf, heads.Of},
	}
	if failed != nil { // what was noted before stays, but for what says that it is all
		files = [][2]string{{headsOf, ""}, {"HEAD", "unknown\n"}}
	}
	dir := noted(w, "")
	err := os.MkdirAll(dir, 0o700)
	for _, file := range files {
		if err == nil {
			err = renameio.WriteFile(noted(w, file[0]), []byte(file[1]), 0o600, renameio.WithTempDir(dir))
		}
	}
	return errors.Join(failed, err)
}

// HeadsOf is what the noted heads are of; "" is nothing.
func HeadsOf(w forage.Workspace) string {
	text, _ := os.ReadFile(noted(w, headsOf))
	return string(text)
}

// withHeads has a shadow take what jj shows of the user's repository for safe, and pass over .jj.
func (i *importing) withHeads(s *Shadow) error {
	text, err := os.ReadFile(noted(i.w, headsHost))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if s.shown = strings.Fields(string(text)); err == nil {
		err = s.Ignore("/.jj/")
	}
	return err
}

// addHeads adds to refs inside those of jj's heads that none of them is at.
func addHeads(w forage.Workspace, refs map[string]string) (odd []string, err error) {
	if w.Repository.Kind == forage.RepositoryJJ || gone(noted(w, "HEAD")) {
		return nil, nil // they are all that there is, or there are none
	}
	m, err := openMetadata(noted(w, ""))
	if err != nil {
		return nil, err
	}
	defer m.close()
	if _, _, err := m.head(); err != nil {
		odd = []string{".jj"}
	}
	heads, _, err := m.refs()
	there := slices.Collect(maps.Values(refs))
	for name, id := range heads.Values {
		if !slices.Contains(there, id) {
			refs[name] = id
		}
	}
	return odd, err
}
