package testdir

import "os"

// Soak says that there is time: for the many rounds, the crowds and the rare cases that no change
// waits for (`make soak`).
func Soak() bool { return os.Getenv("FORAGE_SOAK") != "" }
