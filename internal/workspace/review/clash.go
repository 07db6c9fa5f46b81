package review

import (
	"context"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
	"golang.org/x/text/unicode/norm"

	"forage"
	"forage/internal/term"
	"forage/internal/workspace/gitrepo"
)

// clash refuses new files that the user's file system would not tell from others, because it doesn't look at case or at how an accent
// is written: the one would take the place of the other.
func (i *installation) clash(ctx context.Context, changes []Change) error {
	if i.direct {
		return nil // they are there
	}
	list, err := i.trial.Git(ctx, gitrepo.Call{Args: []string{"ls-tree", "-r", "-z", "--name-only", i.after}})
	if err != nil {
		return err
	}
	names := strings.Split(strings.TrimSuffix(string(list), "\x00"), "\x00")
	found, err := disk{root: i.repo.WorkTree, lstat: os.Lstat}.clashes(ctx, changes, names)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	return forage.WithHint(
		forage.Errorf(forage.ErrRefused, "the file system of %s takes for the same name: %s", i.repo.WorkTree, strings.Join(found, ", ")),
		"give one of each another name inside, or leave it out: name the other files with --paths")
}

// disk is the folder that files come to.
type disk struct {
	root   string
	lstat  func(name string) (fs.FileInfo, error)
	listed map[string]map[string]bool
	folded map[string]bool // what folds said of a folder
}

// Bounds of what is named, and of how many names are looked for under another spelling.
const (
	maxClashes = 20
	maxProbed  = 100
)

// maxPlaces bounds the files and folders of a tree that are compared, which an agent can make be as many as it likes.
const maxPlaces = 2 << 20

// clashes are the new files that the disk would take for others: of those that are there, and of all that are to be there, in pairs.
func (d disk) clashes(ctx context.Context, changes []Change, names []string) (found []string, err error) {
	d.listed, d.folded = make(map[string]map[string]bool), make(map[string]bool)
	added := make(map[string]bool)
	for _, c := range changes {
		if c.OldMode != 0 || c.NewMode == 0 {
			continue
		}
		added[c.Path] = true
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if there := d.respelled(c.Path); there != "" && len(found) < maxClashes {
			found = append(found, term.Escape(c.Path)+" and "+term.Escape(there))
		}
	}
	pairs, err := alike(names, added)
	if err != nil {
		return nil, err
	}
	for _, pair := range pairs {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if len(found) < maxClashes && d.folds(path.Dir(pair[0])) {
			found = append(found, term.Escape(pair[0])+" and "+term.Escape(pair[1]))
		}
	}
	return found, nil
}

// alike are the files and folders of a tree that differ in nothing but spelling from others, where one of the two is new.
func alike(names []string, added map[string]bool) (pairs [][2]string, err error) {
	old := make(map[string]bool) // a folder is, if anything in it is
	for _, name := range names {
		for at := len(name); at > 0 && !added[name] && !old[name[:at]]; at = strings.LastIndexByte(name[:at], '/') {
			old[name[:at]] = true
		}
	}
	type place struct{ dir, folded string } // the folder as it is, and the name in it folded
	first := make(map[place]string)
	seen := make(map[string]bool)
	for _, name := range names {
		for at := len(name); at > 0 && !seen[name[:at]]; at = strings.LastIndexByte(name[:at], '/') {
			now := name[:at]
			if seen[now] = true; len(seen) > maxPlaces {
				return nil, forage.WithHint(
					forage.Errorf(forage.ErrRefused, "there are more than %d files and folders to compare", maxPlaces),
					"`forage-ctl diff` shows which; remove inside what nobody needs")
			}
			dir, base := path.Split(now)
			here := place{dir, fold(base)}
			before, there := first[here]
			if there && !(old[before] && old[now]) {
				pairs = append(pairs, [2]string{before, now})
			}
			if !there || old[now] {
				first[here] = now
			}
		}
	}
	return pairs, nil
}

// fold makes names equal that some file system takes for the same, and a few more.
func fold(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Variation_Selector, r) {
			return -1
		}
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, strings.NewReplacer("ß", "ss", "ẞ", "ss").Replace(norm.NFKD.String(name)))
}

// respelled is what has the place of a path on the disk, if that is spelled otherwise; "" is nothing.
func (d disk) respelled(name string) string {
	for at := range len(name) + 1 {
		if at < len(name) && name[at] != '/' {
			continue
		}
		dir, base := path.Split(name[:at])
		if d.list(dir)[base] {
			continue
		}
		if _, err := d.lstat(filepath.Join(d.root, name[:at])); err == nil {
			for there := range d.list(dir) {
				if fold(there) == fold(base) {
					return dir + there
				}
			}
		}
		return ""
	}
	return ""
}

// openDir opens a folder, and nothing else that has the name of one: a FIFO would be waited for.
func openDir(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
}

// list are the names in a folder.
func (d disk) list(dir string) map[string]bool {
	dir = path.Clean(dir)
	if names, known := d.listed[dir]; known {
		return names
	}
	names := make(map[string]bool)
	if folder, err := openDir(filepath.Join(d.root, dir)); err == nil {
		all, _ := folder.Readdirnames(-1) // of what can't be read, nothing clashes that git would not say
		_ = folder.Close()
		for _, name := range all {
			names[name] = true
		}
	}
	d.listed[dir] = names
	return names
}

// folds says whether the disk takes names for the same that are spelled differently in a folder, or in what is to be its parent, where
// it isn't there yet. Nothing is written for that: what is there is looked for under another spelling.
func (d disk) folds(dir string) bool {
	is, known := d.folded[dir]
	if !known {
		is = d.looksFolded(dir)
		d.folded[dir] = is
	}
	return is
}

func (d disk) looksFolded(dir string) bool {
	if casefold(filepath.Join(d.root, dir)) {
		return true
	}
	names, probed := d.list(dir), 0
	for name := range names {
		if probed++; probed > maxProbed {
			break
		}
		for _, other := range []string{strings.ToUpper(name), strings.ToLower(name), norm.NFC.String(name), norm.NFD.String(name)} {
			if names[other] {
				continue
			}
			if _, err := d.lstat(filepath.Join(d.root, dir, other)); err == nil {
				return true
			}
		}
	}
	return len(names) == 0 && dir != "." && d.folds(path.Dir(dir))
}

// casefold says whether a folder has the mark of that: ext4(5), "casefold".
func casefold(dir string) bool {
	const mark = 0x40000000 // FS_CASEFOLD_FL
	folder, err := openDir(dir)
	if err != nil {
		return false
	}
	defer folder.Close()
	flags, err := unix.IoctlGetUint32(int(folder.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && flags&mark != 0
}
