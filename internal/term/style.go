package term

// Styles of text (ECMA-48, SGR). Their colours are the terminal's own, so that they suit light and
// dark backgrounds.
const (
	Bold    = "\x1b[1m"
	Dim     = "\x1b[2m"
	Reverse = "\x1b[7m"
	Red     = "\x1b[31m"
	Green   = "\x1b[32m"
	Yellow  = "\x1b[33m"
	Blue    = "\x1b[34m"
	Magenta = "\x1b[35m"
	Cyan    = "\x1b[36m"
	Plain   = "\x1b[m" // ends all of them
)
