package supervisor

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"forage"
	"forage/internal/agent"
	"forage/internal/audit"
	"forage/internal/control"
	"forage/internal/deadline"
	"forage/internal/egress"
	"forage/internal/egressconfig"
	"forage/internal/store"
)

// handle answers one control request.
func (s *Sandbox) handle(ctx context.Context, request Request) (Response, error) {
	switch request.Op {
	case OpStatus:
		return s.status(ctx), nil
	case OpStop:
		// The answer goes out before the control socket closes, which is why
		// only the instance is waited for.
		return Response{}, s.stopFor(by(stopped, request.Via), deadline.End)
	case OpNetwork:
		if request.Network == nil {
			return Response{}, forage.Errorf(forage.ErrUsage, "a network request without a network")
		}
		return Response{}, s.SetNetwork(*request.Network, request.Via)
	case OpRecord:
		if request.Event == nil || request.Event.Kind != audit.Exec {
			return Response{}, forage.Errorf(forage.ErrUsage, "only exec events are taken from outside")
		}
		event := *request.Event
		event.Reason = by(event.Reason, request.Via)
		return Response{}, s.Record(event)
	case OpWindow:
		_, err := s.query(ctx, "window")
		return Response{}, err
	case OpOpened:
		return Response{}, s.opened(request.URL, request.Allow)
	case OpTraffic:
		return Response{Traffic: &Traffic{
			Totals: s.account.Totals(), Bounds: s.account.Bounds(),
			Connections: s.account.Connections(), Hosts: s.engine.Traffic(),
		}}, nil
	default:
		return Response{}, forage.Errorf(forage.ErrUsage, "unknown operation %q", request.Op)
	}
}

// by is a reason with who asked.
func by(reason, via string) string {
	if reason == "" || via == "" {
		return reason + via
	}
	return reason + ", " + via
}

func (s *Sandbox) status(ctx context.Context) Response {
	s.mu.Lock()
	response := Response{Ready: s.ready, Tmux: "none", Agent: agent.Running, GuestPID: s.instance.PID()}
	s.mu.Unlock()
	response.Refused = s.Refused()
	response.Bytes, response.Pages = s.account.Totals().Bytes, s.asked.list()
	if !response.Ready {
		return response
	}
	answer, err := s.query(ctx, "session")
	if err != nil {
		return response
	}
	response.Ports = s.forwards.shown(answer.Ports)
	if s.setup.Plan.Spec.Session {
		response.Tmux = answer.Session
		response.Agent, response.ExitCode = s.activity.state(answer)
	}
	return response
}

// Refused is what the sandbox was refused since its start and may still not have, the last one
// first.
func (s *Sandbox) Refused() []egress.Refused { return s.engine.Refused() }

func (s *Sandbox) query(ctx context.Context, what string) (control.AnswerBody, error) {
	ctx, cancel := deadline.Within(ctx, deadline.End, "the guest")
	defer cancel()
	return s.guest.query(ctx, what)
}

// SetNetwork replaces the live network policy: connections that it no longer
// allows are cut. The record and the audit log know of it first, and of via.
func (s *Sandbox) SetNetwork(network forage.Network, via string) error {
	config, err := egressconfig.Engine(s.setup.Plan.Name, network, s.setup.Plan.Facts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.Record(audit.Event{
		Kind: audit.Grant, Verdict: "allow", Rule: "user",
		Reason: by("network "+networkText(network), via),
	}); err != nil {
		return err
	}
	if err := s.update(func(record *store.Record) { record.Network = network }); err != nil {
		return err
	}
	s.engine.SetPolicy(config.Policy)
	s.network = network
	return nil
}

// networkText is a network policy in a line of the audit log.
func networkText(network forage.Network) string {
	text := string(network.Mode)
	if network.Monitor {
		text += ", monitor on"
	}
	allowed := network.Allow
	if n := len(network.Rules); n > 0 {
		allowed = append(slices.Clone(allowed), fmt.Sprintf("(%d rules)", n))
	}
	if len(allowed) > 0 {
		text += ": " + strings.Join(allowed, " ")
	}
	return text
}
