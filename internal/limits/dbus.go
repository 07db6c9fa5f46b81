package limits

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"forage/internal/deadline"

	"forage"

	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Names of systemd's D-Bus interface: org.freedesktop.systemd1(5).
const (
	busName      = "org.freedesktop.systemd1"
	managerPath  = "/org/freedesktop/systemd1"
	managerFace  = busName + ".Manager"
	noSuchUnit   = busName + ".NoSuchUnit"
	dbusProperty = "org.freedesktop.DBus.Properties.Get"
)

// managerPoll is how often a unit is looked at that is to begin or to end.
const managerPoll = 10 * time.Millisecond

// busManager speaks to systemd over D-Bus.
type busManager struct{ conn *dbus.Conn }

// dialManager connects to the bus that listens on socket. The whole connection
// has a deadline: a bus that accepts and says nothing must not hold anybody up.
func dialManager(socket string) (Manager, error) {
	conn, err := net.DialTimeout("unix", socket, deadline.Answer)
	if err != nil {
		return nil, fmt.Errorf("connecting to systemd: %w", err)
	}
	conn.SetDeadline(time.Now().Add(deadline.Answer))
	bus, err := dbus.ConnectUnix(conn.(*net.UnixConn))
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("connecting to systemd at %s: %w", socket, err)
	}
	return &busManager{bus}, nil
}

func (m *busManager) Close() { m.conn.Close() }

// call calls a method of the manager and stores what it returns.
func (m *busManager) call(ctx context.Context, method string, results []any, args ...any) error {
	call := m.conn.Object(busName, managerPath).CallWithContext(ctx, managerFace+"."+method, 0, args...)
	if call.Err != nil {
		return fmt.Errorf("%s: %w", method, call.Err)
	}
	return call.Store(results...)
}

// property reads a string property.
func (m *busManager) property(ctx context.Context, path dbus.ObjectPath, face, name string) (string, error) {
	var value dbus.Variant
	err := m.conn.Object(busName, path).CallWithContext(ctx, dbusProperty, 0, face, name).Store(&value)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", name, err)
	}
	s, ok := value.Value().(string)
	if !ok {
		return "", fmt.Errorf("reading %s: not a string", name)
	}
	return s, nil
}

func (m *busManager) ControlGroup() (string, error) {
	ctx, cancel := deadline.Within(context.Background(), deadline.Answer, "systemd")
	defer cancel()
	return m.property(ctx, managerPath, managerFace, "ControlGroup")
}

// property is one (sv) of StartTransientUnit.
type property struct {
	Name  string
	Value dbus.Variant
}

// scopeProperties are l in systemd's terms: systemd.resource-control(5).
func scopeProperties(pid int, l forage.Limits) []property {
	list := []property{
		{"Description", dbus.MakeVariant("Forage sandbox")},
		{"PIDs", dbus.MakeVariant([]uint32{uint32(pid)})},
		{"CollectMode", dbus.MakeVariant("inactive-or-failed")}, // nothing stays behind
		{"Delegate", dbus.MakeVariant(true)},
	}
	if l.MemoryMax > 0 {
		list = append(list,
			property{"MemoryMax", dbus.MakeVariant(uint64(l.MemoryMax))},
			property{"MemorySwapMax", dbus.MakeVariant(uint64(0))})
	}
	if l.CPUQuota > 0 { // microseconds of processor time in a second
		list = append(list, property{"CPUQuotaPerSecUSec", dbus.MakeVariant(uint64(l.CPUQuota) * 10_000)})
	}
	return list
}

// auxiliary is one (sa(sv)) of StartTransientUnit, of which there is none.
type auxiliary struct {
	Name       string
	Properties []property
}

func (m *busManager) StartScope(unit string, pid int, l forage.Limits) (string, error) {
	ctx, cancel := deadline.Within(context.Background(), deadline.Answer, "systemd")
	defer cancel()
	if err := m.call(ctx, "StartTransientUnit", []any{new(dbus.ObjectPath)}, unit, "fail", scopeProperties(pid, l), []auxiliary{}); err != nil {
		return "", err
	}
	path, err := m.wait(ctx, unit, "active")
	if err != nil {
		return "", err
	}
	return m.property(ctx, path, busName+".Scope", "ControlGroup")
}

// wait waits until a unit is in one of the states, and returns its object.
func (m *busManager) wait(ctx context.Context, unit string, states ...string) (path dbus.ObjectPath, err error) {
	for {
		if err := m.call(ctx, "GetUnit", []any{&path}, unit); err != nil {
			return "", err
		}
		state, err := m.property(ctx, path, busName+".Unit", "ActiveState")
		if err != nil || slices.Contains(states, state) {
			return path, err
		}
		if state == "failed" {
			return "", fmt.Errorf("%s has failed", unit)
		}
		select {
		case <-time.After(managerPoll):
		case <-ctx.Done():
			return "", fmt.Errorf("waiting for %s, which is %s: %w", unit, state, ctx.Err())
		}
	}
}

// Stop needs no StopUnit: a scope without a process is gone.
func (m *busManager) Stop(unit string) error {
	ctx, cancel := deadline.Within(context.Background(), deadline.Answer, "systemd")
	defer cancel()
	err := m.call(ctx, "KillUnit", nil, unit, "all", int32(unix.SIGKILL))
	if err == nil {
		_, err = m.wait(ctx, unit, "inactive", "failed")
	}
	return absent(err)
}

// absent forgives that there is no such unit, or no longer one.
func absent(err error) error {
	var failure dbus.Error
	if errors.As(err, &failure) && (failure.Name == noSuchUnit || failure.Name == "org.freedesktop.DBus.Error.UnknownObject") {
		return nil
	}
	return err
}
