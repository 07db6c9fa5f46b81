package supervisor

import (
	"context"
	"os"
	"strings"
	"testing"

	"forage"
	"forage/internal/control"
)

// guestEnd is the other end of a guestLink, which a test plays.
func guestEnd(t *testing.T) (*guestLink, *control.Conn) {
	t.Helper()
	host, guest, err := control.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := control.New(host, control.FromGuest())
	if err != nil {
		t.Fatal(err)
	}
	end, err := control.New(guest, control.FromHost())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); end.Close() })
	return newGuestLink(conn), end
}

func answer(t *testing.T, end *control.Conn, kind control.Kind, body any) {
	t.Helper()
	if _, _, err := end.Receive(); err != nil {
		t.Error(err)
		return
	}
	tell(t, end, kind, body)
}

func tell(t *testing.T, end *control.Conn, kind control.Kind, body any) {
	t.Helper()
	frame, err := control.Encode(kind, body)
	if err == nil {
		err = end.Send(frame)
	}
	if err != nil {
		t.Error(err)
	}
}

func TestGuestLinkBegins(t *testing.T) {
	link, end := guestEnd(t)
	go answer(t, end, control.Ready, nil)
	if err := link.begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	go answer(t, end, control.Answer, control.AnswerBody{Session: "attached"})
	got, err := link.query(t.Context(), "session")
	if err != nil || got.Session != "attached" {
		t.Fatalf("query = %+v, %v", got, err)
	}
}

func TestGuestLinkTellsWhyTheGuestFailed(t *testing.T) {
	link, end := guestEnd(t)
	go answer(t, end, control.Failed, control.Failure{Step: "init command 1", Error: "exit 3", Hint: "mend it"})
	err := link.begin(t.Context())
	if err == nil || err.Error() != "init command 1: exit 3" || forage.Hint(err) != "mend it" {
		t.Fatalf("got %v with hint %q", err, forage.Hint(err))
	}
}

func TestGuestLinkBelievesNothingUnasked(t *testing.T) {
	link, end := guestEnd(t)
	if err := end.Send(control.Frame{Kind: control.Ready}); err != nil {
		t.Fatal(err)
	}
	<-link.ended
	if err := link.begin(t.Context()); err == nil {
		t.Fatal("a Ready that nobody asked for was believed")
	}
}

func TestGuestLinkTakesNoDescriptors(t *testing.T) {
	link, end := guestEnd(t)
	if err := end.Send(control.Frame{Kind: control.Answer}, os.Stderr); err != nil {
		t.Fatal(err)
	}
	<-link.ended
	if link.err == nil {
		t.Fatal("a descriptor was taken")
	}
}

// An answer that comes late is dropped, and the next question gets its own.
func TestGuestLinkDoesNotMixUpLateAnswers(t *testing.T) {
	link, end := guestEnd(t)
	ctx, giveUp := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := link.query(ctx, "session")
		first <- err
	}()
	if _, _, err := end.Receive(); err != nil { // it has asked
		t.Fatal(err)
	}
	giveUp()
	if <-first == nil {
		t.Fatal("an answer came from nobody")
	}
	for range 20 { // while the first one's answer is owed: they ask nothing, also where they notice late that they are to give up
		if _, err := link.query(ctx, "session"); err == nil {
			t.Fatal("an answer came from nobody")
		}
	}
	go func() {
		tell(t, end, control.Answer, control.AnswerBody{Session: "late"})
		answer(t, end, control.Answer, control.AnswerBody{Session: "attached"})
	}()
	if got, err := link.query(t.Context(), "session"); err != nil || got.Session != "attached" {
		t.Fatalf("query = %+v, %v after a late answer", got, err)
	}
}

// Who waits for others to have asked gives up in time, and owes the guest nothing.
func TestGuestLinkAsksOneAtATime(t *testing.T) {
	link, end := guestEnd(t)
	first := make(chan error, 1)
	go func() {
		_, err := link.query(t.Context(), "session")
		first <- err
	}()
	if _, _, err := end.Receive(); err != nil { // it has asked
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := link.query(ctx, "session"); err == nil {
		t.Fatal("a question was asked beside another")
	}
	frame, err := control.Encode(control.Answer, control.AnswerBody{Session: "attached"})
	if err != nil || end.Send(frame) != nil || <-first != nil {
		t.Fatal("the first question was not answered")
	}
}

func TestGuestLinkEndsWithTheGuest(t *testing.T) {
	link, end := guestEnd(t)
	go func() {
		end.Receive()
		end.Close()
	}()
	if err := link.begin(t.Context()); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Fatalf("got %v, want that the guest ended", err)
	}
}
