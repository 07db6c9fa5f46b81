package image

import (
	"strings"

	"golang.org/x/sys/unix"

	"forage/internal/hostile"
)

// Whiteouts (OCI image-spec, layer.md "Whiteouts").
const (
	whiteoutPrefix = ".wh."
	whiteoutMeta   = ".wh..wh." // what AUFS keeps for itself
	whiteoutOpaque = ".wh..wh..opq"
)

// whiteout hides what layers below put into a folder: one name, or all of them.
// It spares what its own layer has put there, in whatever order.
func (t *tree) whiteout(dir, base string) error {
	hidden := strings.TrimPrefix(base, whiteoutPrefix)
	if hidden == "" || hidden == "." || hidden == ".." {
		return errEscapes
	}
	if t.mine == nil || (strings.HasPrefix(base, whiteoutMeta) && base != whiteoutOpaque) {
		return nil
	}
	parent, err := t.openDir(dir)
	if err != nil {
		if missing(err) {
			return nil // nothing there to hide
		}
		return err
	}
	defer unix.Close(parent)
	if base != whiteoutOpaque {
		return t.remove(parent, hidden)
	}
	names, err := hostile.List(parent)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.remove(parent, name); err != nil {
			return err
		}
	}
	return nil
}

// remove removes what is called name in a folder, but for what the current layer has put there.
func (t *tree) remove(parent int, name string) error {
	return hostile.RemoveAt(parent, name, func(st *unix.Stat_t) bool {
		_, own := t.mine[st.Ino]
		return own
	})
}
