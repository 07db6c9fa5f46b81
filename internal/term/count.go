package term

import (
	"fmt"
	"strconv"
)

// Count is a number of things, such as "1 file" and "3 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Bytes is a number of bytes as people read it: 182 MB.
func Bytes(n int64) string {
	value, unit := float64(n), "B"
	for _, next := range []string{"kB", "MB", "GB", "TB"} {
		if value < 1000 {
			break
		}
		value, unit = value/1000, next
	}
	return strconv.FormatFloat(value, 'g', 3, 64) + " " + unit
}
