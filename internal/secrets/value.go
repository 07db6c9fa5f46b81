package secrets

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"forage"
)

// valueMax bounds a value, in bytes.
const valueMax = 64 << 10

var (
	errEmpty = errors.New("it is empty")
	errLong  = fmt.Errorf("it is longer than %d KiB", valueMax>>10)
)

// clean makes a Secret of what a source gave: without the line break at its end, and
// refused if it could end a line of a header or is no text for one. A
// JSON object, which some commands print over several lines, is put on one.
func clean(text []byte) (Secret, error) {
	if len(text) > valueMax+2 {
		return Secret{}, errLong
	}
	if object := bytes.TrimSpace(text); bytes.HasPrefix(object, []byte("{")) && json.Valid(object) {
		var line bytes.Buffer
		if err := json.Compact(&line, object); err != nil {
			return Secret{}, errors.New("it is not JSON after all")
		}
		text = line.Bytes()
	}
	text = bytes.TrimSuffix(text, []byte("\n"))
	text = bytes.TrimSuffix(text, []byte("\r"))
	switch {
	case len(text) == 0:
		return Secret{}, errEmpty
	case len(text) > valueMax:
		return Secret{}, errLong
	}
	for _, c := range text {
		if c == '\n' || c == '\r' {
			return Secret{}, forage.WithHint(errors.New("it has more than one line"), "a secret is one line: name a source that gives it alone")
		}
		if c < ' ' || c == 0x7f {
			return Secret{}, errors.New("it has control characters in it, which no request can carry")
		}
	}
	return New(string(text)), nil
}
