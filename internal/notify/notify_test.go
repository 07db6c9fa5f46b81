package notify

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"forage"
	"forage/internal/secrets"
	"forage/internal/testdir"
)

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	program, said := filepath.Join(dir, "program"), filepath.Join(dir, "said")
	script := "#!/bin/sh\necho \"$*: $FORAGE_SANDBOX $FORAGE_STATE $FORAGE_EXIT_CODE $HOME $SECRET\" >" + said + "\n"
	testdir.Must(t, os.WriteFile(program, []byte(script), 0o755))
	env := func(name string) string { return map[string]string{"HOME": "/home/x", "SECRET": "s"}[name] }
	three := 3
	for want, event := range map[string]Event{
		"a b: box waiting  /home/x \n": {Sandbox: "box", State: Waiting},
		"a b: box ended 3 /home/x \n":  {Sandbox: "box", State: Ended, ExitCode: &three},
	} {
		testdir.Must(t, Send(t.Context(), forage.Notify{Command: []string{program, "a", "b"}}, event, env))
		got, err := os.ReadFile(said)
		testdir.Must(t, err)
		testdir.Same(t, "", want, string(got))
	}
	if err := Send(t.Context(), forage.Notify{Command: []string{"/nonexistent"}}, Event{}, env); err == nil {
		t.Error("a program that is not there")
	}
	if err := Send(t.Context(), forage.Notify{Desktop: true}, Event{}, func(string) string { return "" }); err == nil {
		t.Error("no session bus")
	}
}

// desktopServer stands for the desktop's notifications.
type desktopServer struct{ got chan string }

func (d desktopServer) Notify(app string, _ uint32, _, summary, body string, _ []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	d.got <- app + ": " + summary + ": " + body
	return 1, nil
}

func TestDesktop(t *testing.T) {
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("dbus-daemon is not installed")
	}
	dir := testdir.Plain(t)
	config := `<busconfig><type>session</type><listen>unix:path=` + dir + `/bus</listen><auth>EXTERNAL</auth>
		<policy context="default"><allow send_destination="*" eavesdrop="true"/><allow eavesdrop="true"/><allow own="*"/></policy></busconfig>`
	testdir.Must(t, os.WriteFile(dir+"/bus.conf", []byte(config), 0o600))
	daemon := exec.Command("dbus-daemon", "--config-file="+dir+"/bus.conf", "--nofork", "--nosyslog", "--print-address=1")
	out, err := daemon.StdoutPipe()
	testdir.Must(t, err)
	testdir.Must(t, daemon.Start())
	t.Cleanup(func() { daemon.Process.Kill(); daemon.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	testdir.Must(t, err)
	env := map[string]string{"DBUS_SESSION_BUS_ADDRESS": strings.TrimSpace(address)}
	conn, err := secrets.SessionBus(t.Context(), env)
	testdir.Must(t, err)
	defer conn.Close()
	server := desktopServer{make(chan string, 1)}
	testdir.Must(t, conn.Export(server, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"))
	if _, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	err = Send(t.Context(), forage.Notify{Desktop: true}, Event{Sandbox: "box", State: Failed}, func(name string) string { return env[name] })
	testdir.Must(t, err)
	if got := <-server.got; got != "forage-ctl: Sandbox box: The sandbox has failed." {
		t.Error(got)
	}
}
