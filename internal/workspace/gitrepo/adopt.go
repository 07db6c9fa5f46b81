package gitrepo

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
)

// Adopt makes the private metadata of one sandbox, of which dir is a copy, that of another: what was the branch from
// is called to then, or where from is "", what HEAD was at. own says that from was the first one's own
// branch, which goes. What else is in dir was written inside, and stays as it is. Nothing runs in it yet.
func Adopt(dir, from, to string, own bool) error {
	m, err := openMetadata(dir)
	if err != nil {
		return err
	}
	id, on, err := m.head()
	if err == nil && from != "" {
		id, err = m.branch(branchRef(from))
	}
	m.close()
	if err != nil {
		return fmt.Errorf("reading the branch %s inside: %w", from, err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	if own && from != to {
		if err := dropRef(root, branchRef(from)); err != nil {
			return err
		}
	}
	if id != "" {
		if err := rewrite(root, branchRef(to), id+"\n"); err != nil {
			return err
		}
	}
	if on == branchRef(from) || from == "" {
		return rewrite(root, "HEAD", "ref: "+branchRef(to)+"\n")
	}
	return nil
}

// rewrite puts text in the place of a file.
func rewrite(root *os.Root, name, text string) error {
	if err := root.MkdirAll(path.Dir(name), 0o700); err != nil {
		return err
	}
	if err := root.RemoveAll(name); err != nil {
		return err
	}
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	return errors.Join(err, file.Close())
}

// dropRef takes a ref away, with its log.
func dropRef(root *os.Root, ref string) error {
	if err := errors.Join(root.RemoveAll(ref), root.RemoveAll("logs/"+ref)); err != nil {
		return err
	}
	info, err := root.Lstat("packed-refs")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxInsidePacked {
		return errors.Join(err, errors.New("packed-refs is not a file of a size that refs have"))
	}
	text, err := root.ReadFile("packed-refs")
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	dropped := false // a line that begins with ^ belongs to the one before
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, maxInsidePacked)
	for lines.Scan() {
		line := lines.Text()
		if !strings.HasPrefix(line, "^") {
			_, name, _ := strings.Cut(line, " ")
			dropped = name == ref
		}
		if !dropped {
			kept.WriteString(line + "\n")
		}
	}
	if err := lines.Err(); err != nil || kept.Len() == len(text) {
		return err
	}
	return rewrite(root, "packed-refs", kept.String())
}
