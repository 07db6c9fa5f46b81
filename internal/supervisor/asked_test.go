package supervisor

import (
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"forage"
	"forage/internal/audit"
	"forage/internal/testdir"
)

func TestPagesAreBounded(t *testing.T) {
	log, err := audit.Open(filepath.Join(t.TempDir(), "log"), "x")
	testdir.Must(t, err)
	defer log.Close()
	synctest.Test(t, func(t *testing.T) {
		s := &Sandbox{audit: log}
		ask := func(i int) error { return s.askToOpen(fmt.Sprintf("https://a.example/%d", i)) }
		for i := range 10 {
			testdir.Must(t, ask(i))
			testdir.Must(t, ask(i)) // the same is one
			if ask(i+100) == nil {
				t.Error("two different pages were taken at once")
			}
			time.Sleep(pagePause)
		}
		var urls []string
		for _, page := range s.asked.list() {
			urls = append(urls, page.URL)
		}
		testdir.Same(t, "", []string{"https://a.example/9", "https://a.example/8", "https://a.example/7", "https://a.example/6", "https://a.example/5"}, urls)
		testdir.Fails(t, "one that was pushed out", forage.ErrNotFound, s.opened("https://a.example/0", true))
		testdir.Must(t, s.opened("https://a.example/8", true))
		testdir.Fails(t, "it is opened once", forage.ErrNotFound, s.opened("https://a.example/8", true))
		if len(s.asked.list()) != 4 {
			t.Error("it is still asked for")
		}
		if s.askToOpen("https://user@a.example/") == nil {
			t.Error("an address with a user name was taken")
		}
		synctest.Wait()
	})
}
