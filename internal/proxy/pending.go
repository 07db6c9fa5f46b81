package proxy

import (
	"container/list"
	"context"
	"net"
	"sync"

	"forage/internal/egress/relay"
)

// pending are the connections whose clients are not known yet. There is room
// for so many: one more takes the place of the one that has waited longest, so that
// those who say nothing don't keep out those who do.
type pending struct {
	mu     sync.Mutex
	room   int
	guests *list.List // of *guest, the oldest first
	closed bool
}

// guest is a connection that is waited for.
type guest struct {
	ctx    context.Context // done when it has to go
	cancel context.CancelFunc
	conn   net.Conn
	at     *list.Element // nil once it has left
}

func newPending(room int) *pending { return &pending{room: room, guests: list.New()} }

// enter makes room for conn; nil says that it is closed.
func (p *pending) enter(conn net.Conn) *guest {
	g := &guest{conn: conn}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		g.cancel()
		return nil
	}
	if p.guests.Len() >= p.room {
		p.sendAwayLocked(p.guests.Front().Value.(*guest))
	}
	g.at = p.guests.PushBack(g)
	return g
}

// leave says that a connection is not waited for any more; false says that it
// was sent away before, or has left.
func (p *pending) leave(g *guest) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	g.cancel()
	if g.at == nil {
		return false
	}
	p.guests.Remove(g.at)
	g.at = nil
	return true
}

// close ends all of them, and lets none in.
func (p *pending) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for p.guests.Len() > 0 {
		p.sendAwayLocked(p.guests.Front().Value.(*guest))
	}
}

func (p *pending) sendAwayLocked(g *guest) {
	p.guests.Remove(g.at)
	g.at = nil
	g.cancel()
	relay.Reset(g.conn)
}
