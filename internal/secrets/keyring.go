package secrets

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"forage/internal/deadline"

	"forage"

	"github.com/godbus/dbus/v5"
)

// Names of the Secret Service (freedesktop.org, Secret Service API Draft 0.2).
const (
	secretService = "org.freedesktop.secrets"
	secretPath    = "/org/freedesktop/secrets"
	serviceFace   = "org.freedesktop.Secret.Service"
	itemFace      = "org.freedesktop.Secret.Item"
	sessionFace   = "org.freedesktop.Secret.Session"
)

const unlockHint = "unlock it on the host: log in to your desktop, or open your password manager; it is never asked to unlock from here"

// item is an item of the keyring, found by its attributes as other programs set them.
type item struct {
	service, user string
	env           map[string]string
}

func (i item) read(ctx context.Context) (Secret, error) {
	value, err := i.ask(ctx)
	if err != nil {
		return Secret{}, fmt.Errorf("the item %s/%s of the keyring: %w", i.service, i.user, err)
	}
	return value, nil
}

func (i item) ask(ctx context.Context) (Secret, error) {
	conn, err := SessionBus(ctx, i.env)
	if err != nil {
		return Secret{}, err
	}
	defer conn.Close()
	service := conn.Object(secretService, secretPath)
	var unlocked, locked []dbus.ObjectPath
	attributes := map[string]string{"service": i.service, "username": i.user}
	if err := service.CallWithContext(ctx, serviceFace+".SearchItems", 0, attributes).Store(&unlocked, &locked); err != nil {
		return Secret{}, forage.WithHint(fmt.Errorf("asking the Secret Service: %w", callError(err)), "is a keyring running (gnome-keyring, KWallet, KeePassXC)?")
	}
	switch {
	case len(unlocked) == 0 && len(locked) > 0:
		return Secret{}, forage.WithHint(errors.New("the keyring is locked"), unlockHint)
	case len(unlocked) == 0:
		return Secret{}, forage.WithHint(errors.New("there is none with these attributes"),
			fmt.Sprintf("store it: secret-tool store --label=forage service %s username %s", i.service, i.user))
	case len(unlocked) > 1:
		return Secret{}, fmt.Errorf("there are %d with the same attributes", len(unlocked))
	}
	return fetch(ctx, conn, unlocked[0])
}

// secretValue is the (oayays) of the Secret Service.
type secretValue struct {
	Session           dbus.ObjectPath
	Parameters, Value []byte
	ContentType       string
}

// fetch reads an item over a plain session: only the user listens on a user's bus.
func fetch(ctx context.Context, conn *dbus.Conn, path dbus.ObjectPath) (Secret, error) {
	var none dbus.Variant
	var session dbus.ObjectPath
	err := conn.Object(secretService, secretPath).
		CallWithContext(ctx, serviceFace+".OpenSession", 0, "plain", dbus.MakeVariant("")).Store(&none, &session)
	if err != nil {
		return Secret{}, fmt.Errorf("opening a session: %w", callError(err))
	}
	defer conn.Object(secretService, session).CallWithContext(ctx, sessionFace+".Close", dbus.FlagNoReplyExpected)
	var value secretValue
	err = conn.Object(secretService, path).CallWithContext(ctx, itemFace+".GetSecret", 0, session).Store(&value)
	var failure dbus.Error
	switch {
	case errors.As(err, &failure) && failure.Name == "org.freedesktop.Secret.Error.IsLocked":
		return Secret{}, forage.WithHint(errors.New("the keyring is locked"), unlockHint)
	case err != nil:
		return Secret{}, fmt.Errorf("reading it: %w", callError(err))
	}
	return clean(value.Value)
}

// callError is the name of a D-Bus error, whose text could hold anything.
func callError(err error) error {
	var failure dbus.Error
	if errors.As(err, &failure) {
		return errors.New(failure.Name)
	}
	return err
}

// SessionBus connects to the caller's session bus. The connection has a deadline: a bus that
// accepts and says nothing must not hold anybody up.
func SessionBus(ctx context.Context, env map[string]string) (*dbus.Conn, error) {
	socket, err := busSocket(env)
	if err != nil {
		return nil, err
	}
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connecting to the session bus: %w", err)
	}
	until, ok := ctx.Deadline()
	if !ok {
		until = time.Now().Add(deadline.Answer)
	}
	raw.SetDeadline(until)
	conn, err := dbus.ConnectUnix(raw.(*net.UnixConn))
	if err != nil {
		raw.Close()
		return nil, fmt.Errorf("connecting to the session bus: %w", err)
	}
	return conn, nil
}

// busSocket is the socket of the session bus, in the form of package net. Only
// sockets are understood: other addresses of D-Bus start programs.
func busSocket(env map[string]string) (string, error) {
	for address := range strings.SplitSeq(env["DBUS_SESSION_BUS_ADDRESS"], ";") {
		rest, ok := strings.CutPrefix(address, "unix:")
		if !ok {
			continue
		}
		for field := range strings.SplitSeq(rest, ",") {
			key, value, _ := strings.Cut(field, "=")
			value, err := url.PathUnescape(value)
			switch {
			case err != nil:
			case key == "path" && strings.HasPrefix(value, "/"):
				return value, nil
			case key == "abstract" && value != "":
				return "@" + value, nil
			}
		}
	}
	if dir := env["XDG_RUNTIME_DIR"]; strings.HasPrefix(dir, "/") {
		return dir + "/bus", nil
	}
	return "", forage.WithHint(errors.New("there is no session bus"),
		"DBUS_SESSION_BUS_ADDRESS and XDG_RUNTIME_DIR were not set when the sandbox was started")
}
