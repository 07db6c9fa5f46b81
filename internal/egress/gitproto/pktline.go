package gitproto

import (
	"strconv"
	"strings"
)

// maxLine is the longest pkt-line, its length included (gitprotocol-common(5)).
const maxLine = 65520

// readLine reads a pkt-line without its line feed; flush is true at a flush-pkt.
func readLine(in *tap) (line string, flush bool, err error) {
	head, err := in.full(4)
	if err != nil {
		return "", false, err
	}
	if strings.Trim(string(head), "0123456789abcdefABCDEF") != "" {
		return "", false, reason("it is not in git's format")
	}
	size, err := strconv.ParseUint(string(head), 16, 16)
	switch {
	case err != nil:
		return "", false, reason("it is not in git's format")
	case size == 0:
		return "", true, nil
	case size <= 4 || size > maxLine: // 1 to 3 are other packets than lines, which a push doesn't have
		return "", false, reason("it has a line of a length that git doesn't send")
	}
	text, err := in.full(int(size) - 4)
	if err != nil {
		return "", false, err
	}
	return strings.TrimSuffix(string(text), "\n"), false, nil
}

// appendLine appends a pkt-line.
func appendLine(b []byte, text string) []byte {
	const hex = "0123456789abcdef"
	n := len(text) + 4
	b = append(b, hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15])
	return append(b, text...)
}

const flushLine = "0000"
