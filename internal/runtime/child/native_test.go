package child

import (
	"fmt"
	"os"
	"testing"
)

// TestMain makes the test binary the guest too, as cmd/forage-ctl does, the
// attacker inside, and a supervisor to be killed.
func TestMain(m *testing.M) {
	roles := map[string]func() error{"forage-guest": guestMain, attackerName: attackMain, holderName: holdMain}
	role, ok := roles[os.Args[0]]
	if !ok {
		os.Exit(m.Run())
	}
	if err := role(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
