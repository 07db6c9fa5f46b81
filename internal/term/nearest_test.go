package term

import "testing"

func TestNearest(t *testing.T) {
	names := []string{"network", "name", "no-tty", "tty", "run", "runtimes"}
	for word, want := range map[string]string{
		"netwrok": "network", "nmae": "name", "no-ty": "no-tty", "runtime": "runtimes",
		"xyzzy": "", "": "", "rum": "run",
	} {
		if got := Nearest(word, names); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
