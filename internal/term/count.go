package term

import (
	"fmt"
	"strconv"
	"strings"
)

// maxNamed is how many names Names has.
const maxNamed = 10

// Names are the first of many names in one line, escaped.
func Names(all []string) string {
	text := Escape(strings.Join(all[:min(len(all), maxNamed)], ", "))
	if more := len(all) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// Count is a number of things, such as "1 file" and "3 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bytes is a number of bytes in the units in which limits are configured: 1.5 MiB.
func Bytes(n int64) string {
	value, unit := float64(n), " B"
	for _, next := range []string{" KiB", " MiB", " GiB", " TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == " B" {
		return strconv.FormatInt(n, 10) + unit
	}
	return fmt.Sprintf("%.1f%s", value, unit)
}
