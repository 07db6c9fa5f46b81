package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/unixsock"
)

func serveControl(t *testing.T, handle func(context.Context, Request) (Response, error)) Client {
	t.Helper()
	dir := t.TempDir()
	server, err := newControlServer(dir, handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return Client{Dir: dir}
}

func TestControlCarriesAnswersAndKindsOfError(t *testing.T) {
	client := serveControl(t, func(_ context.Context, request Request) (Response, error) {
		if request.Op == OpStatus {
			return Response{Ready: true, Tmux: "attached", GuestPID: 7}, nil
		}
		return Response{}, forage.WithHint(forage.Errorf(forage.ErrDenied, "no"), "ask")
	})
	status, err := client.Status(t.Context())
	if err != nil || !status.Ready || status.Tmux != "attached" || status.GuestPID != 7 {
		t.Errorf("Status = %+v, %v", status, err)
	}
	err = client.Record(t.Context(), audit.Event{Kind: audit.Exec})
	if !errors.Is(err, forage.ErrDenied) || forage.Hint(err) != "ask" || err.Error() != "no" {
		t.Errorf("Record failed with %v (hint %q)", err, forage.Hint(err))
	}
}

func TestControlSocketIsTheOwnersAlone(t *testing.T) {
	client := serveControl(t, func(context.Context, Request) (Response, error) { return Response{}, nil })
	info, err := os.Stat(filepath.Join(client.Dir, controlName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket has mode %v (%v)", info.Mode(), err)
	}
}

func TestControlRefusesWhatIsNoRequest(t *testing.T) {
	client := serveControl(t, func(context.Context, Request) (Response, error) {
		t.Error("it was handled")
		return Response{}, nil
	})
	for _, text := range []string{"nonsense\n", `{"op":"stop","extra":1}` + "\n", "\x00\xff\n", `[]` + "\n"} {
		conn, err := unixsock.Dial(t.Context(), filepath.Join(client.Dir, controlName))
		if err != nil {
			t.Fatal(err)
		}
		conn.Write([]byte(text))
		answer := make([]byte, 1024)
		n, _ := conn.Read(answer)
		conn.Close()
		if n == 0 {
			t.Errorf("%q got no answer", text)
		}
	}
}

// A supervisor that says nothing, such as one that was stopped, is named, with what ends it.
func TestASilentSupervisorIsNamed(t *testing.T) {
	client := serveControl(t, func(ctx context.Context, _ Request) (Response, error) {
		<-ctx.Done()
		return Response{}, ctx.Err()
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := client.Status(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(forage.Hint(err), "stop ") {
		t.Errorf("got %v (%s)", err, forage.Hint(err))
	}
}
