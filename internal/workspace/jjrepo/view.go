package jjrepo

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unicode/utf8"

	"forage"
	"forage/internal/workspace"
)

// View is what a jj repository is at: the last operation's view (simple_op_store.proto). Ids are in hex.
type View struct {
	Operations    []string          // the last operation, or several where jj has not merged them yet: sorted
	Workspace     string            // the name of the workspace that the folder is
	Heads         []string          // the commits that no other visible one is based on: sorted
	WorkingCopies map[string]string // the commit that each workspace is at
}

// at is the commit that the folder is at; "" if that isn't known.
func (v View) at() string {
	if id := v.WorkingCopies[v.Workspace]; id != "" {
		return id
	}
	if len(v.WorkingCopies) == 1 {
		for _, id := range v.WorkingCopies {
			return id
		}
	}
	return ""
}

// Bounds of what is read, in number.
const (
	maxOperations = 64      // at the head of the operation log
	maxHeads      = 100_000 // of one view
)

// operationID is the length of an operation's and a view's id in bytes: BLAKE2b-512.
const operationID = 64

// viewIn reads the state of a .jj folder as data. Everything in the folder may have been written from inside: no
// link leads out of it, and what isn't as jj writes it is forage.ErrUnsupported.
func viewIn(dir string) (View, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return View{}, fmt.Errorf("reading the private jj repository: %w", err)
	}
	defer root.Close()
	view, err := readView(root)
	if err != nil {
		return View{}, fmt.Errorf("reading the private jj repository: %w", err)
	}
	return view, nil
}

func readView(root *os.Root) (View, error) {
	operations, err := operationHeads(root)
	if err != nil {
		return View{}, err
	}
	checkout, err := workspace.ReadFileIn(root, "working_copy/checkout", maxSmall)
	if err != nil {
		return View{}, err
	}
	view := View{Operations: operations, WorkingCopies: map[string]string{}}
	if view.Workspace, err = checkoutName(checkout); err != nil {
		return View{}, err
	}
	latest := int64(-1)
	for _, id := range operations {
		one, ended, err := readOperation(root, id)
		if err != nil {
			return View{}, err
		}
		view.Heads = append(view.Heads, one.Heads...)
		if ended > latest { // of several, the last one's working copies count
			latest, view.WorkingCopies = ended, one.WorkingCopies
		}
	}
	slices.Sort(view.Heads)
	view.Heads = slices.Compact(view.Heads)
	return view, nil
}

// operationHeads are the names of the files in op_heads/heads.
func operationHeads(root *os.Root) ([]string, error) {
	dir, err := root.OpenFile("repo/op_heads/heads", os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	var ids []string
	entries, err := dir.ReadDir(maxOperations + 2)
	if err != nil {
		return nil, fmt.Errorf("finding the last operation: %w", err)
	}
	for _, entry := range entries {
		if raw, err := hex.DecodeString(entry.Name()); err == nil && len(raw) == operationID {
			ids = append(ids, hex.EncodeToString(raw))
		}
	}
	if len(ids) == 0 || len(ids) > maxOperations {
		return nil, forage.Errorf(forage.ErrUnsupported, "there are %d last operations", len(ids))
	}
	slices.Sort(ids)
	return ids, nil
}

// readOperation reads an operation's view and when it ended, in milliseconds.
func readOperation(root *os.Root, id string) (View, int64, error) {
	operation, err := workspace.ReadFileIn(root, "repo/op_store/operations/"+id, maxView)
	if err != nil {
		return View{}, 0, err
	}
	var viewID []byte
	var ended int64
	err = fields(operation, func(f field) error {
		switch f.number {
		case 1:
			viewID = f.data
		case 3:
			return fields(f.data, func(f field) error {
				if f.number != 2 {
					return nil
				}
				return fields(f.data, func(f field) error {
					if f.number == 1 {
						ended = max(0, int64(f.value))
					}
					return nil
				})
			})
		}
		return nil
	})
	if err != nil {
		return View{}, 0, err
	}
	if len(viewID) != operationID {
		return View{}, 0, errWire
	}
	content, err := workspace.ReadFileIn(root, "repo/op_store/views/"+hex.EncodeToString(viewID), maxView)
	if err != nil {
		return View{}, 0, err
	}
	view, err := parseView(content)
	return view, ended, err
}

// parseView reads a View message.
func parseView(message []byte) (View, error) {
	view := View{WorkingCopies: map[string]string{}}
	err := fields(message, func(f field) error {
		switch f.number {
		case 1:
			id, err := commitID(f.data)
			if err != nil {
				return err
			}
			if view.Heads = append(view.Heads, id); len(view.Heads) > maxHeads {
				return errors.New("too many heads")
			}
		case 8:
			name, id, err := workingCopy(f.data)
			if err != nil {
				return err
			}
			view.WorkingCopies[name] = id
		}
		return nil
	})
	return view, err
}

// workingCopy reads an entry of the map wc_commit_ids.
func workingCopy(message []byte) (name, id string, err error) {
	err = fields(message, func(f field) error {
		switch f.number {
		case 1:
			name = string(f.data)
		case 2:
			id, err = commitID(f.data)
		}
		return err
	})
	return name, id, err
}

// checkoutName reads the name of a workspace from its working_copy/checkout (local_working_copy.proto).
func checkoutName(message []byte) (string, error) {
	var name string
	err := fields(message, func(f field) error {
		if f.number == 3 {
			name = string(f.data)
		}
		return nil
	})
	if err != nil || !utf8.ValidString(name) {
		return "", forage.Errorf(forage.ErrUnsupported, "the working copy's state: %w", cmp.Or(err, errWire))
	}
	return cmp.Or(name, "default"), nil // jj before 0.5 left it out
}

// commitID checks that an id has the length of a digest that git uses.
func commitID(raw []byte) (string, error) {
	if len(raw) != 20 && len(raw) != 32 {
		return "", errWire
	}
	return hex.EncodeToString(raw), nil
}
