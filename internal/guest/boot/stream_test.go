package boot

import (
	"bytes"
	"testing"
)

// What is in the pipe is copied also when the time that more is waited for is over before this
// process gets to read.
func TestCopyRestLosesNothingOnABusyMachine(t *testing.T) {
	ours, child, err := Pipe(false)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer child.Close() // a process left behind holds it
	want := bytes.Repeat([]byte("x"), 4096)
	if _, err := child.Write(want); err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	copyRest(&got, ours, make([]byte, 1000), -1)
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%d bytes of %d were copied", got.Len(), len(want))
	}
}
