package native

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
	"forage/internal/mount"
)

// When a program of the host removes or replaces a file that is mounted over inside, the kernel takes the mount away. The
// program does not see the mount, and any editor that saves by renaming does this. So the host watches the files that are held:
// a mount that is missing is made again from outside, and where that fails the sandbox is ended. In the milliseconds between,
// the agent can change the new file. That is not prevented, but found by comparing (package hazard).

// guarded is one path inside that something has to be mounted at.
type guarded struct {
	target string // inside
	host   string // the same on the host
	attrs  uint64 // of a mount over itself
	other  bool   // something else is mounted there, which can't be made again
}

// guard watches what is held in one sandbox.
type guard struct {
	namespaces *namespaceFiles
	mountinfo  func() ([]byte, error) // the sandbox's /proc/PID/mountinfo
	list       []guarded
	fail       func(error)
	notify     *os.File           // an inotify instance
	watched    map[int32][]string // by what inotify calls a watched folder, the names in it that something is held at
	stop       chan struct{}
	stopped    chan struct{}
}

// guardedPaths are those that have to be watched in what b describes.
func guardedPaths(b *boot) []guarded {
	var list []guarded
	for _, s := range b.Mounts {
		if !s.Writable || s.System {
			continue
		}
		at := func(target string) string { return s.Source + strings.TrimPrefix(target, s.Target) }
		folders, readOnly := b.holding(s.Target)
		for _, target := range folders {
			list = append(list, guarded{target: target, host: at(target)})
		}
		for _, target := range readOnly {
			list = append(list, guarded{target: target, host: at(target), attrs: mount.ReadOnly})
		}
		for _, t := range b.Mounts {
			switch own := t.Source == at(t.Target); {
			case t.System || b.holder(t.Target) != s.Target:
			case own && t.Writable:
				list = append(list, guarded{target: t.Target, host: t.Source})
			case own:
				list = append(list, guarded{target: t.Target, host: t.Source, attrs: mount.ReadOnly})
			case slices.Contains(metadata, path.Base(t.Target)):
				list = append(list, guarded{target: t.Target, host: at(t.Target), other: true})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b guarded) int { return strings.Compare(a.target, b.target) }) // what holds another comes first
	return list
}

// startGuard watches what is held now; nil if nothing is. fail ends the sandbox.
func startGuard(pid int, files *namespaceFiles, list []guarded, fail func(error)) (*guard, error) {
	g := &guard{namespaces: files, fail: fail, stop: make(chan struct{}), stopped: make(chan struct{})}
	g.mountinfo = func() ([]byte, error) { return os.ReadFile("/proc/" + strconv.Itoa(pid) + "/mountinfo") }
	mounted, err := g.mounted()
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		if mounted[p.target] {
			g.list = append(g.list, p)
		}
	}
	if len(g.list) == 0 {
		files.close()
		return nil, nil
	}
	go g.run()
	return g, nil
}

// end stops watching.
func (g *guard) end() {
	if g == nil {
		return
	}
	close(g.stop)
	<-g.stopped
	g.namespaces.close()
}

// How often mounts are looked for where inotify does not tell of changes. At first it is not even asked: closing an inotify
// instance that has watched something takes the kernel half as long as a short run takes.
const (
	guardPace  = time.Second          // where no inotify instance is to be had, or no watch
	restPace   = 5 * time.Millisecond // after each look at what changed: the agent may change things all the time
	earlyPace  = 5 * time.Millisecond
	earlyLooks = 100
)

func (g *guard) run() {
	defer close(g.stopped)
	for range earlyLooks {
		g.check()
		if g.ended(earlyPace) {
			return
		}
	}
	for {
		if fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err == nil {
			g.notify = os.NewFile(uintptr(fd), "inotify")
			break
		}
		g.check() // and try again: a user has so many instances, and others of them end
		if g.ended(guardPace) {
			return
		}
	}
	g.follow()
	g.notify.Close()
	for !g.ended(guardPace) {
		g.check()
	}
}

// ended waits, and says whether watching has ended meanwhile.
func (g *guard) ended(wait time.Duration) bool {
	select {
	case <-time.After(wait):
		return false
	case <-g.stop:
		return true
	}
}

// follow checks whenever something changes, until watching ends or the kernel no longer tells of all changes.
func (g *guard) follow() {
	go func() {
		<-g.stop
		g.notify.SetReadDeadline(time.Unix(1, 0))
	}()
	watched := g.watch()
	g.check() // what changed before it was watched
	buf := make([]byte, 16<<10)
	for watched {
		n, err := g.notify.Read(buf)
		if err != nil {
			return
		}
		if g.concerns(buf[:n]) {
			g.check()
			watched = g.watch() // a folder may be another one now
		}
		if g.ended(restPace) {
			return
		}
	}
}

// watch watches the folders of all files that are held, and says whether it could. Adding a folder that is watched already
// returns the watch that it has.
func (g *guard) watch() bool {
	raw, err := g.notify.SyscallConn()
	if err != nil {
		return false
	}
	g.watched = make(map[int32][]string)
	for _, p := range g.list {
		dir, err := mount.Open(filepath.Dir(p.host))
		switch {
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ELOOP):
			continue // it was replaced by a link: the check finds that out
		case err != nil:
			return false
		}
		var wd int
		added := raw.Control(func(fd uintptr) {
			wd, err = unix.InotifyAddWatch(int(fd), "/proc/self/fd/"+strconv.Itoa(dir),
				unix.IN_CREATE|unix.IN_DELETE|unix.IN_MOVED_FROM|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
		})
		unix.Close(dir)
		if added != nil || err != nil { // the caller's UID has a bounded number of watches
			return false
		}
		g.watched[int32(wd)] = append(g.watched[int32(wd)], filepath.Base(p.host))
	}
	return true
}

// concerns says whether events (inotify(7)) are about a name that something is held at. The agent causes events too, as many as
// it likes: those about other names are passed over.
func (g *guard) concerns(events []byte) bool {
	for len(events) >= unix.SizeofInotifyEvent {
		size := unix.SizeofInotifyEvent + int(nativeUint32(events[12:]))
		if size > len(events) || nativeUint32(events[4:])&(unix.IN_Q_OVERFLOW|unix.IN_IGNORED) != 0 {
			return true
		}
		name := strings.TrimRight(string(events[unix.SizeofInotifyEvent:size]), "\x00")
		names, known := g.watched[int32(nativeUint32(events))]
		if !known || slices.Contains(names, name) {
			return true
		}
		events = events[size:]
	}
	return false
}

// check makes again what is missing.
func (g *guard) check() {
	for range guardTries {
		missing, err := g.missing()
		if err != nil || len(missing) == 0 {
			return // err: the sandbox has ended
		}
		for _, p := range missing {
			if p.other {
				g.fail(forage.WithHint(
					forage.Errorf(nil, "a program of the host removed or replaced %s, over which the sandbox had metadata of its own", p.host), "start it again"))
				return
			}
			// What was swapped meanwhile is found by looking again.
			if err := g.namespaces.overItself(p.target, p.attrs); err != nil && !errors.Is(err, unix.ENOENT) {
				g.fail(fmt.Errorf("a program of the host replaced %s, and it can't be protected again: %w", p.host, err))
				return
			}
		}
	}
	if missing, err := g.missing(); err == nil && len(missing) > 0 {
		g.fail(fmt.Errorf("%s is replaced again and again, and can't be protected", missing[0].host))
	}
}

// guardTries is how often in a row something may be swapped before that is no longer taken for chance.
const guardTries = 20

// missing are the paths that nothing is mounted at although the host has something there. Where the sandbox had something else,
// it is enough that the host's is gone: from then on the agent could put its own there.
func (g *guard) missing() ([]guarded, error) {
	mounted, err := g.mounted()
	if err != nil {
		return nil, err
	}
	var list []guarded
	for _, p := range g.list {
		if mounted[p.target] {
			continue
		}
		if _, err := os.Lstat(p.host); err == nil || p.other {
			list = append(list, p)
		}
	}
	return list, nil
}

// mounted are the places inside at which something is mounted: proc_pid_mountinfo(5).
func (g *guard) mounted() (map[string]bool, error) {
	text, err := g.mountinfo()
	if err != nil {
		return nil, err
	}
	found := make(map[string]bool)
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			found[unescapeMount(fields[4])] = true
		}
	}
	if len(found) == 0 {
		return nil, os.ErrProcessDone
	}
	return found, nil
}

// unescapeMount undoes how the kernel writes spaces and the like: \040.
func unescapeMount(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if c, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
