package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// MakeScratch makes a folder below scratch, which is made too, for as long as a call takes. It is named KIND-PID-RANDOM,
// so that what a killed process left can be told.
func MakeScratch(scratch, kind string) (dir string, err error) {
	if err = os.MkdirAll(scratch, 0o700); err == nil {
		dir, err = os.MkdirTemp(scratch, fmt.Sprintf("%s-%d-", kind, os.Getpid()))
	}
	if err != nil {
		return "", fmt.Errorf("making a folder to work in: %w", err)
	}
	return dir, nil
}

// scratchKept is how long a scratch folder stays when its name doesn't tell whether its process has ended. No call takes as long.
const scratchKept = 24 * time.Hour

// AbandonedScratch lists the folders below scratch whose processes have ended.
func AbandonedScratch(scratch string) ([]string, error) {
	entries, err := os.ReadDir(scratch)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var abandoned []string
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue // it is gone meanwhile
		}
		if Abandoned(entry.Name()) || time.Since(info.ModTime()) > scratchKept {
			abandoned = append(abandoned, filepath.Join(scratch, entry.Name()))
		}
	}
	return abandoned, err
}

// Abandoned says whether the process that a scratch folder is named after has ended.
func Abandoned(name string) bool {
	parts := strings.Split(name, "-")
	if len(parts) < 3 {
		return false
	}
	pid, err := strconv.Atoi(parts[len(parts)-2])
	return err == nil && pid > 0 && errors.Is(unix.Kill(pid, 0), unix.ESRCH)
}
