package gitrepo

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// Bounds of files that go into a tree, in bytes.
const (
	maxTreeFile  = 4 << 30  // larger ones are left out
	maxTreeBytes = 16 << 30 // of all files of one tree; the rest is left out: holes cost whoever makes them nothing
	maxConverted = 64 << 20 // larger ones are taken as they are, whatever attributes say about line ends
	maxLink      = 4096     // PATH_MAX
)

// record puts the files into the index, as they are now.
func (w *treeWriter) record(ctx context.Context, names []string) error {
	converted, err := w.convertible(ctx, names)
	if err != nil {
		return err
	}
	blobs := newBlobs(w.shadow)
	var removed, added bytes.Buffer
	for _, name := range names {
		if why := UnsafePath(name); why != "" {
			w.leave(name, why)
			continue
		}
		mode, id, err := w.blob(ctx, blobs, name, converted[name])
		switch {
		case errors.Is(err, fs.ErrNotExist):
			w.remove(&removed, name)
		case errors.Is(err, errFolder): // the folder of a submodule: the tree keeps what base has
		case errors.Is(err, errLeft):
			w.leave(name, strings.TrimSuffix(err.Error(), ": "+errLeft.Error()))
		case err != nil:
			return err
		default:
			fmt.Fprintf(&added, "%s %s 0\t%s\x00", mode, id, name)
		}
	}
	// What goes, goes first: a file may stand now where a folder was.
	return errors.Join(w.update(ctx, removed.Bytes()), w.update(ctx, added.Bytes()))
}

func (w *treeWriter) leave(name, why string) { w.tree.Left = append(w.tree.Left, Left{name, why}) }

func (w *treeWriter) remove(out *bytes.Buffer, name string) {
	fmt.Fprintf(out, "0 %s\t%s\x00", strings.Repeat("0", newBlobs(w.shadow).digits), name)
}

func (w *treeWriter) update(ctx context.Context, entries []byte) error {
	if len(entries) == 0 {
		return nil
	}
	_, err := w.git(ctx, entries, "update-index", "-z", "--add", "--replace", "--index-info")
	return err
}

// blob writes the content of one file or link.
func (w *treeWriter) blob(ctx context.Context, blobs *blobs, name string, convert conversion) (mode, id string, err error) {
	for range 3 { // a file that grows while it is read is read again
		entry, err := w.root.open(name)
		if err != nil {
			return "", "", err
		}
		if entry.link != nil {
			id, err := blobs.write(ctx, bytes.NewReader(entry.link), int64(len(entry.link)))
			return "120000", id, err
		}
		mode = "100644"
		if entry.executable {
			mode = "100755"
		}
		id, err = w.content(ctx, blobs, name, entry, convert)
		if err := entry.file.Close(); err != nil {
			return "", "", err
		}
		if !errors.Is(err, errChanged) {
			return mode, id, err
		}
	}
	return "", "", fmt.Errorf("it is being written: %w", errLeft)
}

func (w *treeWriter) content(ctx context.Context, blobs *blobs, name string, entry folderEntry, convert conversion) (string, error) {
	if entry.size > maxTreeFile {
		return "", fmt.Errorf("it has more than %d GiB: %w", maxTreeFile>>30, errLeft)
	}
	if w.bytes += entry.size; w.bytes > cmp.Or(w.folder.Most, maxTreeBytes) {
		w.bytes -= entry.size
		return "", fmt.Errorf("the files before it are too many bytes already: %w", errLeft)
	}
	if convert == convertNothing || entry.size > maxConverted {
		return blobs.write(ctx, entry.file, entry.size)
	}
	text, err := io.ReadAll(io.LimitReader(entry.file, entry.size+1))
	if err != nil {
		return "", err
	}
	if convert == convertEnds && !bytes.Contains(text, []byte("\r\n")) {
		return blobs.write(ctx, bytes.NewReader(text), int64(len(text)))
	}
	if convert == convertEnds && w.hasReturns(ctx, name) {
		return blobs.write(ctx, bytes.NewReader(text), int64(len(text)))
	}
	id, err := w.git(ctx, text, "hash-object", "-w", "--stdin", "--path", name)
	if err != nil && ctx.Err() == nil { // it isn't in the encoding that an attribute says
		return blobs.write(ctx, bytes.NewReader(text), int64(len(text)))
	}
	return strings.TrimSpace(string(id)), err
}

// conversion is what git does with a file before it is an object: gitattributes(5). Programs are no part of it: a
// filter needs a driver in the configuration, and ours has none.
type conversion int

const (
	convertNothing conversion = iota
	convertEnds               // CR LF to LF
	convertAll                // an encoding, or $Id$
)

// convertible says of which of the files line ends or encodings are converted.
func (w *treeWriter) convertible(ctx context.Context, names []string) (map[string]conversion, error) {
	found := make(map[string]conversion)
	if len(names) == 0 || w.exact {
		return found, nil
	}
	if auto := w.shadow.Repository.last("core.autocrlf"); auto == "true" || auto == "input" {
		for _, name := range names {
			found[name] = convertEnds
		}
	}
	list, err := w.shadow.attributes(ctx, w.folder.Path, w.index, []byte(strings.Join(names, "\x00")+"\x00"), "text", "eol", "crlf", "ident", "working-tree-encoding")
	if err != nil {
		return nil, err
	}
	var triple []string
	for field := range fields(list) {
		if triple = append(triple, field); len(triple) < 3 {
			continue
		}
		name, attribute, value := triple[0], triple[1], triple[2]
		triple = triple[:0]
		switch {
		case value == "unspecified":
		case value == "unset":
			if attribute == "text" && found[name] == convertEnds {
				found[name] = convertNothing
			}
		case attribute == "ident" || attribute == "working-tree-encoding":
			found[name] = convertAll
		case found[name] == convertNothing:
			found[name] = convertEnds
		}
	}
	return found, nil
}

// hasReturns says whether the index has a file that only "auto" applies to with CR LF: git leaves those so.
func (w *treeWriter) hasReturns(ctx context.Context, name string) bool {
	line, err := w.git(ctx, nil, "ls-files", "-z", "--eol", "--", name)
	text := string(line)
	return err == nil && !strings.Contains(text, "attr/text ") && (strings.HasPrefix(text, "i/crlf") || strings.HasPrefix(text, "i/mixed"))
}
