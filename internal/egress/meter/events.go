package meter

import "bytes"

// lineScan is where a scanner is in a stream of server-sent events (HTML, section
// 9.2.6). Only the field "data" is of interest; that of one event is one JSON text.
type lineScan struct {
	name   [5]byte // how the line begins
	length int     // of the line so far, up to the colon
	place  linePlace
	cr     bool // the last byte was a carriage return, after which a newline ends no other line
}

type linePlace uint8

const (
	inName linePlace = iota
	inData
	inOther
)

func (l *lineScan) feed(s *scanner, p []byte) {
	for len(p) > 0 {
		end := bytes.IndexAny(p, "\r\n")
		if end != 0 {
			l.cr = false
		}
		if end < 0 {
			l.content(s, p)
			return
		}
		l.content(s, p[:end])
		if p[end] != '\n' || !l.cr {
			l.endLine(s)
		}
		l.cr = p[end] == '\r'
		p = p[end+1:]
	}
}

// content takes a piece of a line.
func (l *lineScan) content(s *scanner, p []byte) {
	for len(p) > 0 && l.place == inName {
		l.name[l.length] = p[0]
		l.length++
		p = p[1:]
		switch {
		case string(l.name[:l.length]) == "data:":
			l.place = inData
		case l.length == len(l.name):
			l.place = inOther
		}
	}
	if l.place == inData && len(p) > 0 {
		s.json.feed(s, p)
	}
}

// endLine ends a line; an empty one ends an event.
func (l *lineScan) endLine(s *scanner) {
	switch {
	case l.length == 0:
		s.json.endScalar(s)
		s.json.reset()
	case l.place == inData && !s.json.inString:
		s.json.feed(s, []byte{'\n'})
	}
	l.place, l.length = inName, 0
}
