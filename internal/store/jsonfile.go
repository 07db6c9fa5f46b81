package store

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// writeJSON writes a file of ours in a folder of ours, whole or not at all, also when the host
// fails.
func WriteJSON(path string, value any) error { return WriteWhole(path, value, true) }

// writeWhole is writeJSON. What is not durable may be lost with the host.
func WriteWhole(path string, value any, durable bool) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return WriteFile(path, append(text, '\n'), durable)
}

func ReadJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
