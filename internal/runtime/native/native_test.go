package native

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes the test binary the guest too, as cmd/forage-ctl does.
func TestMain(m *testing.M) {
	if os.Args[0] == "forage-guest" {
		if err := guestMain(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
