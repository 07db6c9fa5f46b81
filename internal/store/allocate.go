package store

import (
	"context"
	"errors"
	"net"
	"strconv"

	"golang.org/x/sys/unix"

	"forage"
)

// Ports is where a sandbox's SSH port may be; the zero value asks for none.
type Ports struct {
	Listen   string // address it will listen on
	From, To int    // both included, 1 to 65535
	Skip     []int  // taken for other purposes (the gateway's)
}

// allocateLocked chooses what must be unique for rec. The store-wide lock is held.
func (s *Store) allocateLocked(rec *Record, ports Ports) error {
	rec.Port, rec.NetworkSlot = 0, 0
	if rec.Plan.Ephemeral && ports.From == 0 {
		return nil
	}
	usedPorts, usedSlots, err := s.used()
	if err != nil {
		return err
	}
	if !rec.Plan.Ephemeral {
		rec.NetworkSlot = 1
		for usedSlots[rec.NetworkSlot] {
			rec.NetworkSlot++
		}
	}
	if ports.From != 0 {
		rec.Port, err = ports.choose(usedPorts)
	}
	return err
}

// MovePort gives a sandbox that exists another port than its own, and saves
// that; the caller holds its Lock. ErrNoPort: none is left.
func (s *Store) MovePort(ctx context.Context, rec Record, ports Ports) (Record, error) {
	unlock, err := s.lock(ctx, storeLock)
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	used, _, err := s.used()
	if err != nil {
		return Record{}, err
	}
	if rec.Port, err = ports.choose(used); err != nil {
		return Record{}, err
	}
	return rec, s.Save(rec)
}

// used collects the ports and slots that records hold. A broken record holds some that are not
// known; the bind test still finds its port if it runs.
func (s *Store) used() (ports, slots map[int]bool, err error) {
	records, _, err := s.List()
	if err != nil {
		return nil, nil, err
	}
	ports, slots = map[int]bool{}, map[int]bool{}
	for _, rec := range records {
		ports[rec.Port] = true
		slots[rec.NetworkSlot] = true
	}
	return ports, slots, nil
}

// choose returns the first port of the range that no record holds and no program listens on.
func (p Ports) choose(used map[int]bool) (int, error) {
	for _, port := range p.Skip {
		used[port] = true
	}
	for port := p.From; port <= p.To; port++ {
		if used[port] {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort(p.Listen, strconv.Itoa(port)))
		switch {
		case err == nil:
			return port, l.Close()
		case errors.Is(err, unix.EADDRINUSE), errors.Is(err, unix.EACCES):
			// In use, or below net.ipv4.ip_unprivileged_port_start.
		default:
			return 0, forage.Errorf(forage.ErrNoPort, "choosing a port on %s: %w", p.Listen, err)
		}
	}
	return 0, forage.WithHint(
		forage.Errorf(forage.ErrNoPort, "every port from %d to %d is in use", p.From, p.To),
		"remove a sandbox (`forage-ctl ps`), or widen portRange in the configuration")
}
