package hostile

import (
	"cmp"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"
)

// Total is what a folder has, at any depth.
type Total struct {
	Files  int    // whatever is no folder
	Bytes  int64  // of regular files, as they say
	OnDisk int64  // bytes that all of it takes
	Odd    string // one that is neither a file nor a folder; "" is none
}

// Measure counts what is in a folder, without what is in those that are called skip. With an error
// it is what was counted until then.
func Measure(root, skip string) (t Total, err error) {
	err = Walk(root, func(rel string, st *unix.Stat_t) error {
		t.OnDisk += st.Blocks * 512
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFDIR:
			if rel != "" && path.Base(rel) == skip {
				return fs.SkipDir
			}
			return nil
		case unix.S_IFREG:
			t.Bytes += st.Size
		default:
			t.Odd = cmp.Or(t.Odd, rel)
		}
		t.Files++
		return nil
	})
	return t, err
}
