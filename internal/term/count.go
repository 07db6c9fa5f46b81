package term

import "fmt"

// Count is a number of things, such as "1 file" and "3 files".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
