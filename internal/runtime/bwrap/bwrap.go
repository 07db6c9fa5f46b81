// Package bwrap has bubblewrap make the namespaces of a sandbox. Some hosts let ordinary users make
// user namespaces with that program alone. What is built in them is the same as for native:
// bubblewrap only shows the host's files to our own program, which makes the sandbox's root itself,
// gives up all privilege and is the guest.
package bwrap

import (
	"os"
	"strconv"

	"forage"
	"forage/internal/hostexec"
	"forage/internal/runtime"
	"forage/internal/runtime/child"
)

// Name is the runtime's name in plans and commands.
const Name = "bwrap"

// New makes the runtime for a run-time folder. self is the program that is started as guest; "" is
// the running one.
func New(dir, self string) *child.Runtime {
	return child.New(child.Config{
		Name: Name, Description: "bubblewrap's namespaces, for ordinary users",
		Namespaces: namespaces{}, Dir: dir, Self: self,
	})
}

// Detect says what a host lacks, after a quick look.
func Detect(env runtime.Environment) error {
	if env.UID == 0 {
		return errRoot
	}
	if _, err := env.LookPath("bwrap"); err != nil {
		return forage.WithHint(forage.Errorf(forage.ErrUnsupported, "bubblewrap: %w", err), "install the package bubblewrap")
	}
	return nil
}

var errRoot = forage.WithHint(forage.Errorf(forage.ErrUnsupported, "bwrap is for ordinary users"), "choose the runtime native: it gives root's sandboxes another user")

type namespaces struct{}

// Command is bwrap(1) with the guest as the first process of its namespaces.
func (namespaces) Command(_, argument string, who forage.Identity) (child.Command, error) {
	if err := Detect(runtime.Environment{UID: os.Geteuid(), LookPath: hostexec.Find}); err != nil {
		return child.Command{}, err
	}
	path, err := hostexec.Find("bwrap")
	if err != nil {
		return child.Command{}, err
	}
	return child.Command{
		Path: path, Helper: true,
		Argv: []string{
			"bwrap", "--unshare-all", "--die-with-parent", "--as-pid-1", "--uid", strconv.Itoa(who.UID), "--gid", strconv.Itoa(who.GID),
			"--dev-bind", "/", "/", "--cap-add", "ALL", "--info-fd", strconv.Itoa(child.InfoFD),
			"--", child.ProgramPath, argument,
		},
	}, nil
}
