package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"forage/internal/deadline"
	"forage/internal/tail"
	"forage/internal/term"
)

// The list is made anew a moment after a change, and not more often than pace says. Of files that an
// agent writes, and of its ports, nobody tells: while a page is open they are looked at again, for no
// more than a part of the time.
const (
	moment   = 100 * time.Millisecond
	pace     = 2 * time.Second
	again    = 10 * time.Second
	part     = 20
	maxPages = 64
)

// hub passes the list on to the pages that are open. Without any it watches nothing.
type hub struct {
	mu    sync.Mutex
	pages map[chan []byte]bool
	last  []byte
	now   chan struct{} // asks for the list at once
	stop  context.CancelFunc
}

// add has a page get the list, as it is and whenever it changes.
func (s *Server) add(page chan []byte) error {
	h := &s.events
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.pages) >= maxPages {
		return errors.New("too many pages are open")
	}
	if len(h.pages) == 0 {
		watch, err := tail.WatchFolder(s.Folder)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(context.Background())
		h.pages, h.now, h.stop, h.last = map[chan []byte]bool{}, make(chan struct{}, 1), cancel, nil
		context.AfterFunc(ctx, func() { watch.Close() })
		go s.watch(ctx, watch, h.now)
	}
	h.pages[page] = true
	if h.last != nil {
		page <- h.last
	}
	return nil
}

func (s *Server) remove(page chan []byte) {
	h := &s.events
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.pages, page); len(h.pages) == 0 {
		h.stop()
		h.last = nil
		go debug.FreeOSMemory()
	}
}

// soon asks for the list, after something was done.
func (s *Server) soon() {
	s.events.mu.Lock()
	defer s.events.mu.Unlock()
	select {
	case s.events.now <- struct{}{}:
	default:
	}
}

// watch makes the list whenever something has changed.
func (s *Server) watch(ctx context.Context, folder *tail.Folder, now <-chan struct{}) {
	changed := make(chan struct{})
	folder.Arm()
	go func() {
		for folder.Wait() {
			select {
			case changed <- struct{}{}:
			case <-ctx.Done():
				return
			}
		}
	}()
	for ctx.Err() == nil {
		folder.Arm() // it may be made only now; and what changes meanwhile is told
		began := time.Now()
		s.publish(ctx)
		look := time.NewTimer(max(again, part*time.Since(began)))
		select {
		case <-look.C:
		case <-changed:
		case <-now:
			began = time.Time{}
		case <-ctx.Done():
			return
		}
		look.Stop()
		pause := time.NewTimer(max(moment, pace-time.Since(began)))
		select {
		case <-pause.C:
		case <-now:
		case <-ctx.Done():
		}
		pause.Stop()
	}
}

// publish makes the list, and passes it on if it is another than before.
func (s *Server) publish(ctx context.Context) {
	rows, notes, err := s.Sandboxes.List(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		notes = append(notes, err.Error())
	}
	for i, note := range notes {
		notes[i] = term.Escape(note)
	}
	if rows == nil {
		rows = []Row{}
	}
	list, err := json.Marshal(struct {
		Rows  []Row    `json:"rows"`
		Notes []string `json:"notes,omitempty"`
	}{rows, notes})
	if err != nil {
		return
	}
	h := &s.events
	h.mu.Lock()
	defer h.mu.Unlock()
	if ctx.Err() != nil || bytes.Equal(list, h.last) {
		return
	}
	h.last = list
	for page := range h.pages {
		select {
		case <-page: // what it has not taken yet is old
		default:
		}
		page <- list
	}
}

// follow sends the list to a page as server-sent events.
func (s *Server) follow(w http.ResponseWriter, r *http.Request) {
	page := make(chan []byte, 1)
	if err := s.add(page); err != nil {
		fail(w, http.StatusServiceUnavailable, err)
		return
	}
	defer s.remove(page)
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	_ = out.Flush()
	for {
		select {
		case list := <-page:
			_ = out.SetWriteDeadline(time.Now().Add(deadline.Answer))
			if _, err := fmt.Fprintf(w, "data: %s\n\n", list); err != nil {
				return
			}
			if out.Flush() != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
