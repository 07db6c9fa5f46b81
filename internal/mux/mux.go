// Package mux carries many streams over one, for walls that descriptors can't cross: what is opened
// on one side is accepted on the other. It knows nothing of what the streams carry, and bounds what
// the other side can make it keep.
package mux

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/libp2p/go-yamux/v5"
)

// Session is one end of the stream that carries the others. It is a net.Listener.
type Session struct{ yamux *yamux.Session }

// maxStreams is how many streams the other side may have open; more are reset. Each may hold 256
// KiB that have not been read.
const maxStreams = 512

// patience: nothing is asked at intervals, since the end of the stream is seen. A side that is
// stopped may go on later.
const patience = 24 * time.Hour

// New makes an end of a stream, which it owns from then on. One of the two ends is
// the first.
func New(conn net.Conn, first bool) (*Session, error) {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false
	c.MeasureRTTInterval, c.ConnectionWriteTimeout = patience, patience
	c.MaxIncomingStreams, c.AcceptBacklog = maxStreams, maxStreams
	c.MaxStreamWindowSize = c.InitialStreamWindowSize
	c.LogOutput = io.Discard
	end := yamux.Server
	if first {
		end = yamux.Client
	}
	s, err := end(conn, c, nil)
	return &Session{s}, err
}

// Open opens a stream. The other side need not have accepted it yet.
func (s *Session) Open(ctx context.Context) (net.Conn, error) {
	stream, err := s.yamux.OpenStream(ctx)
	if err != nil {
		return nil, err
	}
	return &Stream{Stream: stream}, nil
}

// Accept returns the next stream that the other side has opened; net.ErrClosed after the end of the
// session.
func (s *Session) Accept() (net.Conn, error) {
	stream, err := s.yamux.AcceptStream()
	if err != nil {
		return nil, errors.Join(net.ErrClosed, err)
	}
	return &Stream{Stream: stream}, nil
}

// Close ends the session and all of its streams.
func (s *Session) Close() error { return s.yamux.Close() }

// Addr names nothing.
func (s *Session) Addr() net.Addr { return s.yamux.Addr() }

// Stream is one stream. It ends as a TCP connection does: each direction by itself, or both by a
// reset.
type Stream struct {
	*yamux.Stream
	reset atomic.Bool
}

// SetLinger with 0 makes Close a reset, as that of net.TCPConn.
func (s *Stream) SetLinger(sec int) error {
	s.reset.Store(sec == 0)
	return nil
}

// Close ends both directions.
func (s *Stream) Close() error {
	if s.reset.Load() {
		return s.Stream.Reset()
	}
	return s.Stream.Close()
}

// Join copies both ways until both sides have ended, and closes them. Each half is closed as its
// source ends.
func Join(a, b net.Conn) {
	defer a.Close()
	defer b.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		copyHalf(a, b)
	}()
	copyHalf(b, a)
	<-ended
}

func copyHalf(dst, src net.Conn) {
	io.Copy(dst, src)
	if half, ok := dst.(interface{ CloseWrite() error }); ok {
		half.CloseWrite()
	}
}
