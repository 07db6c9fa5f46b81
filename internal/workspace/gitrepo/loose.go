package gitrepo

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of the loose objects of one import.
const (
	maxLoose       = 1 << 20
	maxLooseObject = 2 << 30  // bytes of one, inflated
	maxLooseParsed = 64 << 20 // bytes of a commit, tree or tag
	maxLooseBytes  = 16 << 30 // bytes of all, inflated
	// What is larger and was deflated to less than one byte in maxDeflated of its own is made to cost time.
	maxUnasked  = 256 << 20
	maxDeflated = 250
)

// looseCopy copies loose objects of private metadata to a store of ours, each as the bytes whose digest was taken.
type looseCopy struct {
	from    *metadata
	objects string // the folder that they are brought to
	sha256  bool
	bytes   int64 // inflated
}

// object is a checked object.
type object struct {
	kind string
	body []byte // of a commit, tree or tag
}

// walk brings tips and what they lead to, as far as it is loose, and returns what is not, whose names are all
// that is known of it. Whatever is in stop is taken for complete.
func (c *looseCopy) walk(ctx context.Context, tips []string, stop map[string]bool) (absent []string, err error) {
	seen := make(map[string]bool)
	var pending []string
	add := func(ids []string) { // each once: folders may name one thing millions of times
		for _, id := range ids {
			if !seen[id] && !stop[id] && len(seen) <= maxLoose {
				seen[id], pending = true, append(pending, id)
			}
		}
	}
	add(tips)
	for len(pending) > 0 {
		if len(seen) > maxLoose {
			return nil, fmt.Errorf("more than %d objects are not packed: %w", maxLoose, errIrregular)
		}
		id := pending[len(pending)-1]
		pending = pending[:len(pending)-1]
		o, err := c.take(ctx, id)
		if errors.Is(err, fs.ErrNotExist) {
			absent = append(absent, id)
			continue
		}
		if err != nil {
			return nil, err
		}
		links, err := o.links(c.idBytes())
		if err != nil {
			return nil, fmt.Errorf("the object %s: %w", id, err)
		}
		add(links)
	}
	return absent, nil
}

func (c *looseCopy) idBytes() int {
	if c.sha256 {
		return sha256.Size
	}
	return sha1.Size
}

func (c *looseCopy) digest() hash.Hash {
	if c.sha256 {
		return sha256.New()
	}
	return sha1.New() // git looks for collisions itself, in the pack that follows
}

// take copies one object and checks it. fs.ErrNotExist: it is not loose.
func (c *looseCopy) take(ctx context.Context, id string) (object, error) {
	if ctx.Err() != nil {
		return object{}, context.Cause(ctx)
	}
	if !isHex(id) || len(id) != 2*c.idBytes() {
		return object{}, fmt.Errorf("%.80q is no object's name here: %w", id, errIrregular)
	}
	in, info, err := c.from.open("objects/"+id[:2]+"/"+id[2:], maxLooseObject)
	if err != nil {
		return object{}, err
	}
	defer in.Close()
	dir := filepath.Join(c.objects, id[:2])
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return object{}, err
	}
	out, err := os.CreateTemp(dir, "tmp_obj_")
	if err != nil {
		return object{}, err
	}
	o, err := c.check(id, info.Size(), io.TeeReader(io.LimitReader(in, maxLooseObject), out))
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(out.Name(), filepath.Join(dir, id[2:]))
	}
	if err != nil {
		return object{}, errors.Join(fmt.Errorf("the object %s: %w", id, err), os.Remove(out.Name()))
	}
	return o, nil
}

// check reads a whole loose object, from the bytes that are kept of it, deflated so many.
func (c *looseCopy) check(id string, deflated int64, compressed io.Reader) (object, error) {
	source := bufio.NewReader(compressed)
	inflated, err := zlib.NewReader(source)
	if err != nil {
		return object{}, fmt.Errorf("%w: %w", err, errIrregular)
	}
	digest := c.digest()
	content := bufio.NewReader(io.TeeReader(io.LimitReader(inflated, maxLooseObject+1), digest))
	kind, size, err := looseHeader(content)
	if err != nil {
		return object{}, err
	}
	if size > maxUnasked && size/maxDeflated > deflated {
		return object{}, fmt.Errorf("%d bytes in %d: %w", size, deflated, errIrregular)
	}
	if c.bytes += size; c.bytes > maxLooseBytes {
		return object{}, fmt.Errorf("more than %d bytes are not packed: %w", int64(maxLooseBytes), errIrregular)
	}
	o := object{kind: kind}
	var body bytes.Buffer
	to := io.Writer(&body)
	if kind == "blob" {
		to = io.Discard
	} else if size > maxLooseParsed {
		return object{}, fmt.Errorf("a %s of %d bytes: %w", kind, size, errIrregular)
	}
	n, err := io.Copy(to, io.LimitReader(content, size+1)) // one more shows whether it ends, and has the checksum read
	switch {
	case err != nil:
		return object{}, fmt.Errorf("%w: %w", err, errIrregular)
	case n != size:
		return object{}, fmt.Errorf("its size is not %d: %w", size, errIrregular)
	case hex.EncodeToString(digest.Sum(nil)) != id:
		return object{}, fmt.Errorf("its content is another's: %w", errIrregular)
	}
	if _, err := source.ReadByte(); !errors.Is(err, io.EOF) {
		return object{}, fmt.Errorf("something follows it: %w", errIrregular)
	}
	o.body = body.Bytes()
	return o, nil
}

// looseHeader reads "KIND SIZE" and a zero byte.
func looseHeader(r *bufio.Reader) (kind string, size int64, err error) {
	var header []byte
	for len(header) < 32 {
		b, err := r.ReadByte()
		if err != nil {
			return "", 0, fmt.Errorf("%w: %w", err, errIrregular)
		}
		if b == 0 {
			break
		}
		header = append(header, b)
	}
	kind, digits, _ := strings.Cut(string(header), " ")
	parsed, err := strconv.ParseUint(digits, 10, 63)
	switch {
	case kind != "blob" && kind != "tree" && kind != "commit" && kind != "tag",
		err != nil, digits != strconv.FormatUint(parsed, 10):
		return "", 0, fmt.Errorf("its header is damaged: %w", errIrregular)
	case parsed > maxLooseObject-64:
		return "", 0, fmt.Errorf("more than %d bytes: %w", maxLooseObject, errIrregular)
	}
	return kind, int64(parsed), nil
}

// links are the objects that an object needs. What a submodule is at is not one of them.
func (o object) links(idBytes int) ([]string, error) {
	switch o.kind {
	case "commit":
		return headerLinks(o.body, "tree ", "parent ")
	case "tag":
		return headerLinks(o.body, "object ")
	case "tree":
		return treeLinks(o.body, idBytes)
	}
	return nil, nil
}

// Parents are those of a commit, which git has taken for one: the lines after that of the tree. What a line further down says is no parent.
func Parents(commit []byte) ([]string, error) {
	_, header, _ := bytes.Cut(commit, []byte("\n"))
	return headerLinks(header, "parent ")
}

// headerLinks reads the ids in the first lines, as far as they begin with one of the words.
func headerLinks(body []byte, words ...string) (links []string, err error) {
	for line := range bytes.Lines(body) {
		found := false
		for _, word := range words {
			rest, ok := strings.CutPrefix(string(line), word)
			if !ok {
				continue
			}
			id := strings.TrimSuffix(rest, "\n")
			if !isHex(id) {
				return nil, fmt.Errorf("it names no object: %w", errIrregular)
			}
			links, found = append(links, id), true
		}
		if !found {
			break
		}
	}
	return links, nil
}

func treeLinks(body []byte, idBytes int) (links []string, err error) {
	for len(body) > 0 {
		entry, rest, ok := bytes.Cut(body, []byte{0})
		if !ok || len(rest) < idBytes {
			return nil, fmt.Errorf("a folder that is cut off: %w", errIrregular)
		}
		if !bytes.HasPrefix(entry, []byte("160000 ")) {
			links = append(links, hex.EncodeToString(rest[:idBytes]))
		}
		body = rest[idBytes:]
	}
	return links, nil
}
