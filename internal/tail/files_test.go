package tail

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"forage/internal/testdir"
)

// patience is how long a change may take to be seen.
const patience = 2 * time.Minute

func write(t *testing.T, path, text string) {
	t.Helper()
	testdir.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

func must(t *testing.T, err error) {
	t.Helper()
	testdir.Must(t, err)
}

// TestFilesSeesChanges: each way in which a file becomes another.
func TestFilesSeesChanges(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir string){
		"written":     func(t *testing.T, dir string) { write(t, dir+"/f", "other") },
		"same length": func(t *testing.T, dir string) { write(t, dir+"/f", "b") },
		"replaced": func(t *testing.T, dir string) {
			write(t, dir+"/f.new", "b")
			must(t, os.Rename(dir+"/f.new", dir+"/f"))
		},
		"removed":       func(t *testing.T, dir string) { must(t, os.Remove(dir+"/f")) },
		"closed":        func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/f", 0)) },
		"behind a link": func(t *testing.T, dir string) { write(t, dir+"/far/l", "b") },
		"another link": func(t *testing.T, dir string) {
			write(t, dir+"/other", "b")
			must(t, os.Symlink("other", dir+"/link.new"))
			must(t, os.Rename(dir+"/link.new", dir+"/link"))
		},
		"made in a new folder": func(t *testing.T, dir string) {
			must(t, os.Mkdir(dir+"/later", 0o700))
			write(t, dir+"/later/f", "b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			must(t, os.Mkdir(dir+"/far", 0o700))
			write(t, dir+"/f", "a")
			write(t, dir+"/far/l", "a")
			must(t, os.Symlink("far/l", dir+"/link"))
			for _, file := range []string{"/f", "/far/l"} { // times may be as coarse as the clock tick, in which all of this is done
				must(t, os.Chtimes(dir+file, time.Unix(1, 0), time.Unix(1, 0)))
			}
			changed := watch(t, dir+"/f", dir+"/link", dir+"/later/f")
			write(t, dir+"/unrelated", "x")
			change(t, dir)
			select {
			case <-changed:
			case <-time.After(patience):
				t.Fatal("it was not seen")
			}
		})
	}
}

// TestFilesIgnoresNeighbours: what happens to other files of the folder, and reading, changes
// nothing.
func TestFilesIgnoresNeighbours(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/f", "a")
	must(t, os.Chtimes(dir+"/f", time.Unix(1, 0), time.Unix(1, 0)))
	changed := watch(t, dir+"/f")
	for i := range 50 {
		write(t, filepath.Join(dir, "n"), string(rune('a'+i)))
	}
	if _, err := os.ReadFile(dir + "/f"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/f.new", "b") // so that there is something to wait for, in one step
	must(t, os.Rename(dir+"/f.new", dir+"/f"))
	select {
	case <-changed:
	case <-time.After(patience):
		t.Fatal("the change after all that was not seen")
	}
	if len(changed) > 0 {
		t.Errorf("%d changes more than there were", len(changed))
	}
}

// TestFilesSeesWhatIsMadeBehindALook: a file in a folder that has just been made comes as soon as
// it was looked for.
func TestFilesSeesWhatIsMadeBehindALook(t *testing.T) {
	dir := t.TempDir()
	file := dir + "/later/f"
	files, err := WatchFiles()
	must(t, err)
	files.look = func(path string) state {
		s := look(path)
		if _, err := os.Stat(dir + "/later"); err == nil && path == file && s == (state{}) {
			write(t, file, "b")
		}
		return s
	}
	changed := run(t, files, file, dir+"/f") // so that the folder above stays watched
	must(t, os.Mkdir(dir+"/later", 0o700))
	select {
	case <-changed:
	case <-time.After(patience):
		t.Fatal("it was not seen")
	}
}

// watch watches paths until the test ends.
func watch(t *testing.T, paths ...string) chan struct{} {
	t.Helper()
	files, err := WatchFiles()
	must(t, err)
	return run(t, files, paths...)
}

func run(t *testing.T, files *Files, paths ...string) chan struct{} {
	t.Helper()
	must(t, files.Set(paths))
	changed, done := make(chan struct{}, 100), make(chan error, 1)
	go func() { done <- files.Run(t.Context(), func() { changed <- struct{}{} }) }()
	t.Cleanup(func() { // t.Context is done by now
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return changed
}
