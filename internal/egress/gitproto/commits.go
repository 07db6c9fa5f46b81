package gitproto

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strings"
)

// commit is one of a pack's commits.
type commit struct {
	data    []byte // as deltas need it
	parents []id
}

// What keeping a commit and one of its parents costs beyond the content, in
// bytes; measured, and rounded up.
const (
	commitCost = 400
	parentCost = 64
)

// commits are those of a pack, found by id and by where they are.
type commits struct {
	format   format
	byID     map[id]*commit
	byOffset map[int64]*commit
	cost     int64 // in bytes
}

func newCommits(format format) *commits {
	return &commits{format: format, byID: map[id]*commit{}, byOffset: map[int64]*commit{}}
}

// reserve checks that there is room for size bytes more.
func (c *commits) reserve(size int64) error {
	if size > maxCommit {
		return reason("it has a commit that is too large to be judged")
	}
	if size > maxCommits-c.cost {
		return reason("it has more commits than can be judged at once; push them in parts")
	}
	return nil
}

// add keeps a commit, and data with it. Its id is what its content makes it.
func (c *commits) add(offset int64, data []byte) error {
	name := c.id(data)
	if old := c.byID[name]; old != nil { // a pack may have it twice
		c.byOffset[offset] = old
		c.cost += commitCost
		return c.reserve(0)
	}
	added := &commit{data: data, parents: c.parents(data)}
	c.cost += int64(len(data)) + commitCost + parentCost*int64(len(added.parents))
	c.byID[name] = added
	c.byOffset[offset] = added
	return c.reserve(0)
}

func (c *commits) id(data []byte) id {
	hash := c.format.hash()
	fmt.Fprintf(hash, "commit %d\x00", len(data))
	hash.Write(data)
	return id(hash.Sum(nil))
}

// parents reads a commit's parents where git reads them: directly after its
// tree. Of what isn't written like that there are none.
func (c *commits) parents(data []byte) []id {
	var parents []id
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	if tree, ok := strings.CutPrefix(string(line), "tree "); !ok || len(tree) != 2*c.format.size {
		return nil
	}
	for {
		name, ok := bytes.CutPrefix(rest, []byte("parent "))
		if !ok || len(name) <= 2*c.format.size || name[2*c.format.size] != '\n' {
			return parents
		}
		parent, ok := parseID(string(name[:2*c.format.size]))
		if !ok {
			return parents
		}
		parents = append(parents, parent)
		rest = name[2*c.format.size+1:]
	}
}

func (c *commits) has(name id) bool { return c.byID[name] != nil }

// leads says whether the pack's commits show that old is among the ancestors of new.
// Those of shallow are taken to have no parents, as a server that records them would.
// It looks at steps commits at most, and takes those it has looked at from steps.
func (c *commits) leads(from, to id, shallow map[id]bool, steps *int) bool {
	seen := map[id]bool{from: true}
	for next := []id{from}; len(next) > 0; {
		name := next[len(next)-1]
		next = next[:len(next)-1]
		commit := c.byID[name]
		if commit == nil || shallow[name] {
			continue
		}
		for _, parent := range commit.parents {
			if *steps--; *steps < 0 {
				return false
			}
			if parent == to {
				return true
			}
			if !seen[parent] {
				seen[parent] = true
				next = append(next, parent)
			}
		}
	}
	return false
}

// apply makes what a delta (gitformat-pack(5), "Deltified representation") makes of base.
func (c *commits) apply(base, delta []byte) ([]byte, error) {
	from, delta, ok := deltaSize(delta)
	if !ok || from != uint64(len(base)) {
		return nil, unreadable
	}
	size, delta, ok := deltaSize(delta)
	if !ok {
		return nil, unreadable
	}
	if err := c.reserve(int64(min(size, maxCommit+1))); err != nil {
		return nil, err
	}
	out := make([]byte, 0, size)
	for len(delta) > 0 {
		var part []byte
		if part, delta, ok = deltaPart(base, delta); !ok || uint64(len(out)+len(part)) > size {
			return nil, unreadable
		}
		out = append(out, part...)
	}
	if uint64(len(out)) != size {
		return nil, unreadable
	}
	return out, nil
}

// deltaSize reads one of the sizes at a delta's beginning.
func deltaSize(delta []byte) (size uint64, rest []byte, ok bool) {
	size, n := binary.Uvarint(delta)
	if n <= 0 {
		return 0, nil, false
	}
	return size, delta[n:], true
}

// deltaPart is what one instruction of a delta adds: bytes of base, or its own.
func deltaPart(base, delta []byte) (part, rest []byte, ok bool) {
	op := delta[0]
	delta = delta[1:]
	if op&0x80 == 0 {
		if op == 0 || len(delta) < int(op) {
			return nil, nil, false
		}
		return delta[:op], delta[op:], true
	}
	var fields [7]uint64 // four bytes of an offset, three of a size
	for i := range fields {
		if op&(1<<i) == 0 {
			continue
		}
		if len(delta) == 0 {
			return nil, nil, false
		}
		fields[i], delta = uint64(delta[0]), delta[1:]
	}
	offset := fields[0] | fields[1]<<8 | fields[2]<<16 | fields[3]<<24
	size := fields[4] | fields[5]<<8 | fields[6]<<16
	if size == 0 {
		size = 0x10000
	}
	if offset+size > uint64(len(base)) {
		return nil, nil, false
	}
	return base[offset : offset+size], delta, true
}
