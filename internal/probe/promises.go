package probe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"forage"
)

// ChildArgument is the first argument with which a probe starts our program again: see Child.
const ChildArgument = "prove-child"

// promiseWalls are what only some sandboxes are promised.
func promiseWalls(opts Options) (walls []wall) {
	add := func(asked bool, name string, try func(context.Context) error) {
		if asked {
			walls = append(walls, wall{"promises", name, try})
		}
	}
	limits := opts.Limits
	add(true, "a workspace of another user", ownWorkspace)
	add(opts.Protected != "", "changing a protected file", func(context.Context) error {
		file, err := os.OpenFile(opts.Protected, os.O_WRONLY, 0)
		if err == nil {
			file.Close()
		}
		return errors.Unwrap(err)
	})
	add(opts.Socket != "", "a host's socket in a mounted folder", func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", opts.Socket)
		if err == nil {
			conn.Close()
		}
		return err
	})
	add(limits.TasksMax > 0, "more tasks than tasksMax", func(context.Context) error { return tooMany(limits.TasksMax) })
	add(limits.MemoryMax > 0, "more memory than memoryMax", func(context.Context) error {
		end, err := startChild(limits.MemoryMax + limits.MemoryMax/4)
		if err == nil {
			end()
		}
		return err
	})
	add(limits.CPUQuota > 0, "more processor time than cpuQuota", func(context.Context) error { return tooBusy(limits.CPUQuota) })
	add(limits.DiskMax > 0, "more in /tmp than diskMax", func(context.Context) error { return tooLarge(limits.DiskMax) })
	return walls
}

func ownWorkspace(context.Context) error {
	var info unix.Stat_t
	if err := unix.Stat(forage.WorkspacePath, &info); err != nil {
		return through(err.Error())
	}
	return must(int(info.Uid) == os.Getuid(), "user %d owns it", info.Uid)
}

// tooMany starts processes until one is refused. Each has several threads.
func tooMany(most int64) error {
	for n := range most + 1 {
		end, err := startChild(0)
		if err != nil {
			return fmt.Errorf("%d processes, then: %w", n, err)
		}
		defer end()
	}
	return nil
}

// tooBusy works for a second of wall clock and looks at how much of a processor it got.
func tooBusy(percent int64) error {
	used := func() time.Duration {
		var usage unix.Rusage
		unix.Getrusage(unix.RUSAGE_THREAD, &usage)
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	began, before := time.Now(), used()
	for time.Since(began) < time.Second {
	}
	got := int64((used() - before) * 100 / time.Since(began))
	return must(got <= percent*3/2, "%d%% of a processor", got)
}

// tooLarge writes more than there may be.
func tooLarge(most int64) error {
	file, err := os.Create("/tmp/.probe-disk")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	defer file.Close()
	block := make([]byte, 1<<20)
	for written := int64(0); written <= most; written += int64(len(block)) {
		if _, err := file.Write(block); err != nil {
			return fmt.Errorf("after %d MiB: %w", written>>20, err)
		}
	}
	return nil
}

// startChild starts a process that fills so many bytes of memory, and waits until it has. end ends
// it.
func startChild(size int64) (end func(), err error) {
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	said, says, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, theirs.Close(), ours.Close())
	}
	child, err := os.StartProcess("/proc/self/exe", []string{"probe", ChildArgument}, &os.ProcAttr{Files: []*os.File{theirs, says, nil}})
	theirs.Close()
	says.Close()
	end = func() {
		ours.Close()
		said.Close()
		if child != nil {
			child.Wait()
		}
	}
	if err == nil {
		fmt.Fprintln(ours, size)
		_, err = said.Read(make([]byte, 1))
	}
	if err != nil {
		end()
		return nil, fmt.Errorf("a process with %d MiB: %w", size>>20, err)
	}
	return end, nil
}

// Child is the process that startChild starts: it fills as much memory as it is told on standard
// input, says so, and waits for the end of its input.
func Child() int {
	in := bufio.NewReader(os.Stdin)
	line, err := in.ReadString('\n')
	size, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil || size < 0 {
		return 2
	}
	memory := make([]byte, size)
	for i := 0; i < len(memory); i += os.Getpagesize() {
		memory[i] = 1
	}
	fmt.Print("+")
	io.Copy(io.Discard, in)
	runtime.KeepAlive(memory)
	return 0
}
