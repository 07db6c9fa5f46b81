// Command bench measures Forage beside its peers, on the machine it runs on,
// and prints a table of medians and ratios in Markdown. It asserts nothing: a
// time is the machine's as much as the program's, which is why every row has a
// peer that was measured in the same run, turn and turn about. What was measured
// is printed when its group ends; an interrupt prints what there is of the group
// that it meets, and takes away what was made.
//
// It installs nothing; bench/peers.sh does. It runs as an ordinary user: when root
// starts it, it builds, becomes the user forage-bench (made if need be), and stays
// behind only to read memory figures that the kernel shows to root alone.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == insideArgument {
		os.Exit(inside(os.Args[2:]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are the flags.
type options struct {
	runs      int
	only      *regexp.Regexp
	sandboxes int
	size      int64
	files     int
	workspace int64 // bytes
	idle      int   // seconds
	programs  string
	before    string
}

func parse() (options, error) {
	var o options
	var only string
	flag.IntVar(&o.runs, "n", 31, "interleaved `runs` behind each median")
	flag.StringVar(&only, "only", "", "measure only the groups that match `regexp`: "+groupNames())
	flag.IntVar(&o.sandboxes, "sandboxes", 100, "how many are brought up in the group many")
	flag.Int64Var(&o.size, "size", 1<<30, "`bytes` of the download")
	flag.IntVar(&o.files, "files", 50_000, "`files` of the repository in the groups day and twenty")
	flag.Int64Var(&o.workspace, "workspace", 2<<30, "`bytes` of the workspace in the group snapshot")
	flag.IntVar(&o.idle, "idle", 10, "`seconds` over which wake-ups are counted")
	flag.StringVar(&o.before, "before", "", "`program` of an earlier version, which run and exec are compared with")
	flag.StringVar(&o.programs, "programs", "", "`folder` with programs built already (bench itself uses it)")
	flag.Parse()
	if flag.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	var err error
	o.only, err = regexp.Compile(only)
	return o, err
}

func run(ctx context.Context) (err error) {
	o, err := parse()
	if err != nil {
		return err
	}
	if o.programs == "" {
		dir, err := os.MkdirTemp("", "forage-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if err := build(ctx, dir); err != nil {
			return err
		}
		o.programs = dir
		if os.Geteuid() == 0 {
			return asOrdinaryUser(ctx, o)
		}
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return b.measure(ctx, os.Stdout, groups())
}

// group is a few rows that are measured together.
type group struct {
	name    string
	measure func(*bench, context.Context) ([]row, error)
}

// groups are in the order in which they are printed.
func groups() []group {
	return []group{
		{"cold", (*bench).coldStart},
		{"walls", (*bench).walls},
		{"weight", (*bench).weight},
		{"exec", (*bench).execInRunning},
		{"screens", (*bench).screens},
		{"egress", (*bench).egress},
		{"tls", (*bench).tls},
		{"workspace", (*bench).workspace},
		{"day", (*bench).days},
		{"twenty", (*bench).largeTwenty},
		{"snapshot", (*bench).snapshot},
		{"idle", (*bench).idle},
		{"many", (*bench).many},
	}
}

func groupNames() string {
	var names string
	for _, g := range groups() {
		names += " " + g.name
	}
	return names[1:]
}

// measure runs the groups and prints the rows of each when it ends.
func (b *bench) measure(ctx context.Context, w io.Writer, groups []group) error {
	b.header(w)
	for _, g := range groups {
		if !b.o.only.MatchString(g.name) {
			continue
		}
		b.say("measuring %s", g.name)
		rows, err := g.measure(b, ctx)
		if ctx.Err() != nil {
			rows = slices.DeleteFunc(rows, func(r row) bool { return r.ours == "" && r.peer == "" })
		} else if err != nil {
			rows = append(rows, row{what: g.name, note: "not measured: " + oneLine(err.Error())})
		}
		for _, r := range rows {
			fmt.Fprintln(w, r)
		}
		if ctx.Err() != nil {
			fmt.Fprintf(w, "\nInterrupted in the group %s, whose rows are of fewer runs.\n", g.name)
			break
		}
	}
	b.footer(w)
	return context.Cause(ctx)
}
