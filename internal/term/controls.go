package term

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Controls passes on what a program inside writes to the user's terminal (ECMA-48, xterm's "Control
// Sequences"). It leaves out what acts on more than the screen, and knows how the terminal is put
// back as it was. The zero value with Out is ready for use.
type Controls struct {
	Out       io.Writer
	Clipboard bool // lets the clipboard be read and written
	Title     bool // lets the window's title be changed

	out   bytes.Buffer
	state func(c *Controls, b byte)
	held  []byte // the sequence so far
	drops bool   // the string under way is left out
	open  bool   // it has begun on the terminal
	c1    bool   // the first byte of a C1 control in UTF-8 has come

	modes  map[int]bool // private modes that were changed, and whether they are set
	keys   int          // entries on the stack of the kitty keyboard protocol
	undo   map[string]bool
	styled bool
	asked  bool
}

const esc = 0x1b

// Modes that are off, or on, in a terminal that nothing has changed.
var (
	usuallyOff = []int{1, 5, 6, 9, 47, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1015, 1016, 1047, 1049, 2004, 2026, 2031, 2048}
	usuallyOn  = []int{7, 25}
)

func (c *Controls) Write(p []byte) (int, error) {
	if c.state == nil {
		c.state = (*Controls).ground
	}
	c.out.Reset()
	for _, b := range p {
		c.state(c, b)
	}
	if _, err := c.out.WriteTo(c.Out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Undo are the sequences that put the terminal back. Asked says whether it was asked something:
// answers that were not read may be waiting as input.
func (c *Controls) Undo() (sequences string, asked bool) {
	var b strings.Builder
	if c.open {
		b.WriteString("\x18") // CAN ends it
	}
	for _, mode := range slices.Sorted(maps.Keys(c.modes)) {
		if set := c.modes[mode]; set && slices.Contains(usuallyOff, mode) {
			b.WriteString("\x1b[?" + strconv.Itoa(mode) + "l")
		} else if !set && slices.Contains(usuallyOn, mode) {
			b.WriteString("\x1b[?" + strconv.Itoa(mode) + "h")
		}
	}
	if c.keys > 0 {
		b.WriteString("\x1b[<" + strconv.Itoa(c.keys) + "u")
	}
	for _, sequence := range slices.Sorted(maps.Keys(c.undo)) {
		b.WriteString(sequence)
	}
	if c.styled {
		b.WriteString("\x1b[m")
	}
	return b.String(), c.asked
}

func (c *Controls) mustUndo(sequence string) {
	if c.undo == nil {
		c.undo = make(map[string]bool)
	}
	c.undo[sequence] = true
}

func (c *Controls) ground(b byte) {
	if c.c1 {
		c.c1 = false
		if b >= 0x80 && b < 0xa0 {
			c.escaped(b - 0x40) // ESC and that byte is the same control
			return
		}
		c.out.WriteByte(0xc2)
	}
	switch b {
	case esc:
		c.state = (*Controls).escaped
	case 0xc2:
		c.c1 = true
	case 0x05: // ENQ: the terminal answers with a text that can be set
	case 0x0e: // SO
		c.mustUndo("\x0f")
		fallthrough
	default:
		c.out.WriteByte(b)
	}
}

// begin holds a sequence back until it is known whole, or what kind of string it is.
func (c *Controls) begin(state func(*Controls, byte), held ...byte) {
	c.state, c.held = state, append([]byte{esc}, held...)
}

func (c *Controls) end() { c.state, c.held, c.drops, c.open = (*Controls).ground, nil, false, false }

func (c *Controls) escaped(b byte) {
	switch b {
	case esc:
		c.state = (*Controls).escaped
	case '[':
		c.begin((*Controls).control, b)
	case ']':
		c.begin((*Controls).command, b)
	case 'k': // screen's title
		c.begin((*Controls).text, b)
		c.drops = !c.Title
		c.flush()
	case 'P', 'X', '^', '_':
		c.begin((*Controls).text, b)
		c.asked = true
		c.flush()
	case '=':
		c.mustUndo("\x1b>")
		c.out.Write([]byte{esc, b})
		c.end()
	case '(':
		c.mustUndo("\x1b(B")
		fallthrough
	default:
		c.out.Write([]byte{esc, b})
		c.end()
	}
}

// flush begins a string that is passed on as it comes, or not at all.
func (c *Controls) flush() {
	if c.open = !c.drops; c.open {
		c.out.Write(c.held)
	}
}

// command reads the number of an OSC.
func (c *Controls) command(b byte) {
	if b >= 0x20 && b != ';' && len(c.held) < maxSequence {
		c.held = append(c.held, b)
		return
	}
	switch number := string(c.held[2:]); {
	case number == "52", number == "5522", number == "1337":
		c.drops = !c.Clipboard
	case number == "0", number == "1", number == "2", strings.HasPrefix(strings.ToLower(number), "l"):
		c.drops = !c.Title
	case len(c.held) == maxSequence:
		c.drops = true
	}
	c.flush()
	c.state = (*Controls).text
	c.text(b)
}

// text is the rest of a string, to its end.
func (c *Controls) text(b byte) {
	if b == '?' {
		c.asked = true
	}
	if b == esc { // with a backslash it is the string's end, else it begins something else
		c.state = func(c *Controls, b byte) {
			open := c.open
			c.end()
			switch {
			case b != '\\':
				if open {
					c.out.WriteByte(0x18)
				}
				c.escaped(b)
			case open:
				c.out.WriteString("\x1b\\")
			}
		}
		return
	}
	if c.open {
		c.out.WriteByte(b)
	}
	if b == 0x07 || b == 0x18 || b == 0x1a {
		c.end()
	}
}

// control reads a CSI.
func (c *Controls) control(b byte) {
	switch {
	case b == esc:
		c.end()
		c.state = (*Controls).escaped
	case b == 0x18 || b == 0x1a:
		c.end()
	case b < 0x20: // terminals act on it at once
		c.out.WriteByte(b)
	case b < 0x40:
		if len(c.held) < maxSequence {
			c.held = append(c.held, b)
		}
	case len(c.held) == maxSequence || !c.notes(string(c.held[2:]), b):
		c.end()
	default:
		// Writes what is held and b.
		c.out.Write(append(c.held, b))
		c.end()
	}
}

// notes remembers what a CSI changes, and says whether it may be passed on.
func (c *Controls) notes(parameters string, final byte) bool {
	private := strings.HasPrefix(parameters, "?")
	switch final {
	case 'h', 'l':
		for number := range strings.SplitSeq(strings.TrimPrefix(parameters, "?"), ";") {
			if mode, err := strconv.Atoi(number); private && err == nil {
				if c.modes == nil {
					c.modes = make(map[int]bool)
				}
				c.modes[mode] = final == 'h'
			}
		}
	case 'm':
		switch {
		case strings.HasPrefix(parameters, ">"):
			c.mustUndo("\x1b[>4m")
		case !private:
			c.styled = strings.Trim(parameters, "0") != ""
		}
	case 'r':
		if !private && parameters != "" {
			c.mustUndo("\x1b7\x1b[r\x1b8")
		}
	case 'q':
		if strings.HasSuffix(parameters, " ") {
			c.mustUndo("\x1b[0 q")
		}
		c.asked = true
	case 'u':
		switch {
		case strings.HasPrefix(parameters, ">"):
			c.keys++
		case strings.HasPrefix(parameters, "<"):
			count, err := strconv.Atoi(parameters[1:])
			if err != nil {
				count = 1
			}
			c.keys = max(0, c.keys-count)
		case strings.HasPrefix(parameters, "="):
			c.mustUndo("\x1b[=0u")
		}
		c.asked = c.asked || private
	case 't':
		c.asked = true
		which, _, _ := strings.Cut(parameters, ";")
		return which != "20" && which != "21" // which have the terminal type its title
	case 'c', 'n', 'x', 'p', 'S', 'w', 'y':
		c.asked = true
	}
	return true
}
