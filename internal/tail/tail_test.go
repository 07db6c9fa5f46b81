package tail

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"forage/internal/testdir"
)

// What is written to a file just before another takes its place is read.
func TestFileReadsWhatItWasGivenLast(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	extend(t, path, "first ")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var got string
	replaced := false
	err := File(ctx, path, func(file *os.File, _ bool) (func() error, error) {
		return func() error {
			text, err := io.ReadAll(file)
			got += string(text)
			if !replaced {
				replaced = true
				extend(t, path, "last ")
				extend(t, path+".next", "new ")
				if err := os.Rename(path+".next", path); err != nil {
					t.Error(err)
				}
			}
			if got == "first last new " {
				cancel()
			}
			return err
		}, nil
	})
	if diff := cmp.Diff("first last new ", got); err != nil || diff != "" {
		t.Error(err, diff)
	}
}

// What is there is read when the end comes before it is watched, too.
func TestFileReadsWhatIsThereAtTheEnd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	extend(t, path, "all")
	for range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var got string
		err := File(ctx, path, func(file *os.File, _ bool) (func() error, error) {
			cancel()
			runtime.Gosched() // to whom it tells that
			return func() error {
				text, err := io.ReadAll(file)
				got += string(text)
				return err
			}, nil
		})
		if err != nil || got != "all" {
			t.Fatalf("read %q: %v", got, err)
		}
	}
}

// extend appends to a file.
func extend(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	testdir.Must(t, err)
	defer file.Close()
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
}
