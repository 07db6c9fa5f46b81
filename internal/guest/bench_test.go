package guest_test

import (
	"io"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"forage/internal/guest/guestclient"
)

// BenchmarkDial is a whole login: both ends' processor time beside its latency.
func BenchmarkDial(b *testing.B) {
	sb := up(b, setup{})
	cpu := used(b, sb)
	for b.Loop() {
		client, err := guestclient.Dial(b.Context(), sb.socket, sb.signer, sb.host)
		if err != nil {
			b.Fatal(err)
		}
		client.Close()
	}
	b.ReportMetric((used(b, sb)-cpu)/float64(b.N), "cpu-ns/op")
}

// BenchmarkRun is `exec -- true`: login, one program, and its end.
func BenchmarkRun(b *testing.B) {
	sb := up(b, setup{})
	for b.Loop() {
		client, err := guestclient.Dial(b.Context(), sb.socket, sb.signer, sb.host)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := client.Run(b.Context(), guestclient.Command{Argv: []string{"true"}}, guestclient.Stdio{}); err != nil {
			b.Fatal(err)
		}
		client.Close()
	}
}

// BenchmarkStart is one program over a connection that is there.
func BenchmarkStart(b *testing.B) {
	sb := up(b, setup{})
	client := sb.dial()
	for b.Loop() {
		if _, err := client.Run(b.Context(), guestclient.Command{Argv: []string{"true"}}, guestclient.Stdio{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOutput(b *testing.B) {
	sb := up(b, setup{})
	client := sb.dial()
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		exit, err := client.Run(b.Context(), guestclient.Command{Argv: []string{"head", "-c", "67108864", "/dev/zero"}}, guestclient.Stdio{Out: io.Discard})
		if err != nil || exit.Code() != 0 {
			b.Fatal(err, exit)
		}
	}
}

func BenchmarkInput(b *testing.B) {
	sb := up(b, setup{})
	client := sb.dial()
	zero, err := os.Open("/dev/zero")
	must(b, err)
	const size = 64 << 20
	b.SetBytes(size)
	for b.Loop() {
		if _, err := client.Run(b.Context(), guestclient.Command{Argv: []string{"wc", "-c"}}, guestclient.Stdio{In: io.LimitReader(zero, size)}); err != nil {
			b.Fatal(err)
		}
	}
}

// used is the processor time of this process and the guest, in nanoseconds.
func used(b *testing.B, sb *sandbox) float64 {
	var own unix.Rusage
	must(b, unix.Getrusage(unix.RUSAGE_SELF, &own))
	var guest unix.Timespec
	// The clock of another process (clock_getcpuclockid(3)).
	must(b, unix.ClockGettime(int32(^sb.pid<<3|2), &guest))
	return float64(own.Utime.Nano()+own.Stime.Nano()) + float64(guest.Nano())
}
