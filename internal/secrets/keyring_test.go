package secrets

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"

	"github.com/godbus/dbus/v5"

	"forage/internal/testdir"
)

// startBus starts a session bus of its own, and returns what finds it.
func startBus(t *testing.T) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	dir := testdir.Plain(t)
	t.Setenv("HOME", dir)
	// Nothing is started by being asked for: that would be the keyring of this machine.
	config := `<busconfig><type>session</type><listen>unix:path=` + dir + `/bus</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	testdir.Must(t, os.WriteFile(dir+"/bus.conf", []byte(config), 0o600))
	cmd := exec.Command("dbus-daemon", "--config-file="+dir+"/bus.conf", "--nofork", "--nosyslog", "--print-address=1")
	out, err := cmd.StdoutPipe()
	testdir.Must(t, err)
	start(t, cmd)
	address, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the bus says no address: %v", err)
	}
	return map[string]string{"DBUS_SESSION_BUS_ADDRESS": strings.TrimSpace(address), "HOME": dir, "XDG_RUNTIME_DIR": dir}
}

func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	testdir.Must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
}

// startKeyring starts gnome-keyring, unlocked, on a bus of its own.
func startKeyring(t *testing.T) map[string]string {
	t.Helper()
	if _, err := exec.LookPath("gnome-keyring-daemon"); err != nil {
		t.Skip("gnome-keyring is not installed")
	}
	env := startBus(t)
	cmd := exec.Command("gnome-keyring-daemon", "--foreground", "--unlock", "--components=secrets", "--control-directory="+env["HOME"]+"/control")
	cmd.Env = append(os.Environ(), environOf(env)...)
	cmd.Stdin = strings.NewReader("password\n")
	start(t, cmd)
	conn := connect(t, env)
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		var owned bool
		testdir.Must(t, conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, secretService).Store(&owned))
		if owned {
			return env
		}
		if time.Now().After(deadline) {
			t.Fatal("gnome-keyring does not come up")
		}
	}
}

func connect(t *testing.T, env map[string]string) *dbus.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	conn, err := SessionBus(ctx, env)
	testdir.Must(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// store puts an item into the keyring's default collection, as secret-tool does.
func store(t *testing.T, conn *dbus.Conn, service, user, value string, replace bool) {
	t.Helper()
	var none dbus.Variant
	var session, path, prompt dbus.ObjectPath
	err := conn.Object(secretService, secretPath).Call(serviceFace+".OpenSession", 0, "plain", dbus.MakeVariant("")).Store(&none, &session)
	testdir.Must(t, err)
	properties := map[string]dbus.Variant{
		itemFace + ".Label":      dbus.MakeVariant("test"),
		itemFace + ".Attributes": dbus.MakeVariant(map[string]string{"service": service, "username": user}),
	}
	err = conn.Object(secretService, collection).Call("org.freedesktop.Secret.Collection.CreateItem", 0, properties,
		secretValue{session, []byte{}, []byte(value), "text/plain"}, replace).Store(&path, &prompt)
	if err != nil || path == "/" {
		t.Fatalf("storing an item: %v, at %s, prompt %s", err, path, prompt)
	}
}

const collection = "/org/freedesktop/secrets/collection/login"

func get(t *testing.T, keyring string, env map[string]string) (string, error) {
	t.Helper()
	source, err := Open(t.Context(), forage.SecretSource{Keyring: keyring}, env)
	testdir.Must(t, err)
	value, err := source.Get(t.Context())
	return value.Reveal(), err
}

func TestKeyring(t *testing.T) {
	env := startKeyring(t)
	conn := connect(t, env)
	store(t, conn, "https://example.com", "me", "the value", true)
	if got, err := get(t, "https://example.com/me", env); got != "the value" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	_, err := get(t, "example.com/me", env)
	if err == nil || !strings.Contains(forage.Hint(err), "secret-tool store --label=forage service example.com username me") {
		t.Errorf("an item that is not there: %v, hint %q", err, forage.Hint(err))
	}
	store(t, conn, "https://example.com", "me", "another", false)
	store(t, conn, "example.com", "me", "one", false)
	store(t, conn, "example.com", "me", "two", false)
	if got, err := get(t, "example.com/me", env); err == nil || !strings.Contains(err.Error(), "there are 2") {
		t.Errorf("two with the same names: %q, %v", got, err)
	}
	store(t, conn, "bad", "me", "two\nlines", true)
	if _, err := get(t, "bad/me", env); err == nil || strings.Contains(err.Error(), "two") {
		t.Errorf("a value of two lines: %v", err)
	}
	var locked []dbus.ObjectPath
	var prompt dbus.ObjectPath
	err = conn.Object(secretService, secretPath).Call(serviceFace+".Lock", 0, []dbus.ObjectPath{collection}).Store(&locked, &prompt)
	if err != nil || len(locked) == 0 {
		t.Fatalf("locking: %v, %v", locked, err)
	}
	if got, err := get(t, "https://example.com/me", env); err == nil || !strings.Contains(err.Error(), "locked") || forage.Hint(err) != unlockHint {
		t.Errorf("a locked keyring: %q, %v, hint %q", got, err, forage.Hint(err))
	}
}

func TestABusWithoutAKeyring(t *testing.T) {
	env := startBus(t)
	if _, err := get(t, "example.com/me", env); err == nil || !strings.Contains(forage.Hint(err), "gnome-keyring") {
		t.Errorf("got %v, hint %q", err, forage.Hint(err))
	}
}

func TestNoBus(t *testing.T) {
	if _, err := get(t, "example.com/me", nil); err == nil || !strings.Contains(err.Error(), "no session bus") {
		t.Errorf("got %v", err)
	}
	if _, err := get(t, "example.com/me", map[string]string{"XDG_RUNTIME_DIR": filepath.Join(t.TempDir(), "none")}); err == nil {
		t.Error("a bus that is not there answers")
	}
}

// A bus that says nothing holds up no caller for longer than the caller's limit.
func TestASilentBus(t *testing.T) {
	path := filepath.Join(testdir.Plain(t), "bus")
	listener := listen(t, path)
	defer listener.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	source, err := Open(t.Context(), forage.SecretSource{Keyring: "a/b"}, map[string]string{"DBUS_SESSION_BUS_ADDRESS": "unix:path=" + path})
	testdir.Must(t, err)
	if _, err := source.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestBusSocket(t *testing.T) {
	for _, test := range []struct{ address, want string }{
		{"unix:path=/run/user/1/bus", "/run/user/1/bus"},
		{"unix:path=/run/user/1/bus,guid=12", "/run/user/1/bus"},
		{"unix:guid=12,path=/a%20b", "/a b"},
		{"unix:abstract=/tmp/dbus", "@/tmp/dbus"},
		{"tcp:host=localhost,port=1;unix:path=/a", "/a"},
		{"unixexec:path=/bin/sh", "/run/bus"},
		{"autolaunch:", "/run/bus"},
		{"", "/run/bus"},
	} {
		got, err := busSocket(map[string]string{"DBUS_SESSION_BUS_ADDRESS": test.address, "XDG_RUNTIME_DIR": "/run"})
		if got != test.want || err != nil {
			t.Errorf("%q is at %q, %v; want %q", test.address, got, err, test.want)
		}
	}
}
