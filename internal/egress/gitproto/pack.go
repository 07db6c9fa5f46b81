package gitproto

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"io"
)

// kind is the type of a pack's entry (gitformat-pack(5)).
type kind uint8

const (
	kindCommit   kind = 1
	kindTree     kind = 2
	kindBlob     kind = 3
	kindTag      kind = 4
	kindOfsDelta kind = 6
	kindRefDelta kind = 7
)

// scanner reads a pack entry by entry, and keeps its commits if they are wanted.
//
// Entries are unfolded without exception, as where one ends is not told otherwise.
// What is a delta is taken for a commit if its base is one that came before in the
// pack: that is the order in which git and JGit write. Another order
// hides commits, and so can only make a push less likely to be allowed.
type scanner struct {
	in       *tap
	format   format
	start    int64    // where the pack begins in the stream
	left     int64    // entries not begun; before the header -1
	commits  *commits // nil: not wanted
	entry    entry
	zlib     io.ReadCloser // of the entry; nil before the first
	open     bool          // the entry has begun and not ended
	unfolded int64         // bytes, in all
	kept     bytes.Buffer  // of one entry
	scratch  []byte
}

// entry is what the scanner is reading.
type entry struct {
	kind   kind
	offset int64 // in the pack
	size   int64 // as it says itself: of the unfolded content or delta
	got    int64
	base   *commit       // of a delta among commits
	keep   *bytes.Buffer // nil: not wanted
}

func newScanner(in *tap, format format, commits bool) *scanner {
	s := &scanner{in: in, format: format, start: in.read, left: -1, scratch: make([]byte, 32<<10)}
	if commits {
		s.commits = newCommits(format)
	}
	return s
}

// step reads the header, the beginning of an entry, a part of one, or the
// checksum, with which it is done.
func (s *scanner) step() (done bool, err error) {
	switch {
	case s.left < 0:
		return false, s.header()
	case s.open:
		return false, s.unfold()
	case s.left > 0:
		s.left--
		return false, s.begin()
	default:
		_, err := s.in.full(s.format.size)
		return true, err
	}
}

func (s *scanner) header() error {
	head, err := s.in.full(12)
	if err != nil {
		return err
	}
	if string(head[:8]) != "PACK\x00\x00\x00\x02" {
		return unreadable
	}
	s.left = int64(binary.BigEndian.Uint32(head[8:]))
	return nil
}

// begin reads what is in front of an entry's content.
func (s *scanner) begin() error {
	e := entry{offset: s.in.read - s.start}
	b, err := s.in.ReadByte()
	if err != nil {
		return s.in.why(err)
	}
	e.kind, e.size = kind(b>>4&7), int64(b&15)
	for shift := 4; b&0x80 != 0; shift += 7 {
		if b, err = s.in.ReadByte(); err != nil {
			return s.in.why(err)
		}
		if shift > 46 { // 2^53 bytes
			return unreadable
		}
		e.size |= int64(b&0x7f) << shift
	}
	if err := s.readBase(&e); err != nil {
		return err
	}
	if s.commits != nil && (e.kind == kindCommit || e.base != nil) {
		if err := s.commits.reserve(e.size); err != nil {
			return err
		}
		s.kept.Reset()
		e.keep = &s.kept
	}
	s.entry, s.open = e, true
	return s.inflate()
}

// readBase reads what a delta is against.
func (s *scanner) readBase(e *entry) error {
	switch e.kind {
	case kindCommit, kindTree, kindBlob, kindTag:
	case kindRefDelta:
		base, err := s.in.full(s.format.size)
		if err != nil {
			return err
		}
		if s.commits != nil {
			e.base = s.commits.byID[id(base)]
		}
	case kindOfsDelta:
		distance, err := s.readDistance()
		if err != nil {
			return err
		}
		if distance <= 0 || distance >= e.offset {
			return unreadable
		}
		if s.commits != nil {
			e.base = s.commits.byOffset[e.offset-distance]
		}
	default:
		return unreadable
	}
	return nil
}

// readDistance reads the offset encoding of gitformat-pack(5).
func (s *scanner) readDistance() (int64, error) {
	var distance int64
	for {
		b, err := s.in.ReadByte()
		if err != nil {
			return 0, s.in.why(err)
		}
		distance |= int64(b & 0x7f)
		if b&0x80 == 0 {
			return distance, nil
		}
		if distance++; distance > 1<<53 {
			return 0, unreadable
		}
		distance <<= 7
	}
}

// inflate begins the zlib stream of an entry.
func (s *scanner) inflate() error {
	var err error
	if s.zlib == nil {
		s.zlib, err = zlib.NewReader(s.in)
	} else {
		err = s.zlib.(zlib.Resetter).Reset(s.in, nil)
	}
	return s.in.why(err)
}

// unfold reads a part of an entry's content.
func (s *scanner) unfold() error {
	e := &s.entry
	n, err := s.zlib.Read(s.scratch)
	e.got += int64(n)
	s.unfolded += int64(n)
	switch {
	case e.got > e.size:
		return unreadable
	case s.unfolded > freeUnfolding+maxUnfolding*s.in.read:
		return reason("its pack unfolds to far more than was sent")
	}
	if e.keep != nil {
		e.keep.Write(s.scratch[:n])
	}
	if err == nil {
		return nil
	}
	if err != io.EOF {
		return s.in.why(err)
	}
	if e.got != e.size {
		return unreadable
	}
	s.open = false
	return s.keep()
}

// keep adds an entry that is a commit to those of the pack.
func (s *scanner) keep() error {
	e := &s.entry
	if e.keep == nil {
		return nil
	}
	data := bytes.Clone(e.keep.Bytes())
	if e.base != nil {
		var err error
		if data, err = s.commits.apply(e.base.data, data); err != nil {
			return err
		}
	}
	return s.commits.add(e.offset, data)
}
