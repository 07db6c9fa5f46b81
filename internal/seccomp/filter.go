// Package seccomp makes and installs the system call filter of a sandbox.
//
// It is an allow list: a call that is not known gives ENOSYS, so that programs
// fall back as on an older kernel; a call that is known and refused gives
// EPERM. Debuggers, compilers and browsers' own filters work under it. It guards
// the kernel and what is shared with the host's user; what the agent may see
// or reach is the work of namespaces, mounts and Landlock.
//
// Use: Filter(Options{}) builds the program (pure, 0.1 ms); Install puts it
// on every thread of the process, for good.
//
// gVisor's seccomp package was not taken: its rules compare whole 64-bit
// arguments unless each is masked by hand, and it brings all of its kernel
// interface tables into the guest. The assembler here is a page long.
package seccomp

import (
	"fmt"
	"maps"

	"golang.org/x/sys/unix"
)

// Options loosen the filter. The zero value is the tightest.
type Options struct {
	// NestedNamespaces allows making namespaces and mounting within them.
	NestedNamespaces bool
	// KeepMounts refuses there what leaves a process in a namespace without the mounts of the
	// sandbox: a mount point can be renamed, and something else be put in its place, where it is
	// none.
	KeepMounts bool
	// NoSockets refuses every socket; pairs of unix sockets remain.
	NoSockets bool
}

// maxInstructions is the kernel's bound: BPF_MAXINSNS, linux/bpf_common.h.
const maxInstructions = 4096

// Filter builds the program for this architecture.
func Filter(o Options) ([]unix.SockFilter, error) {
	b := builder{program: newProgram(), nested: o.NestedNamespaces, kept: o.KeepMounts, closed: o.NoSockets}
	b.allow = b.ret(unix.SECCOMP_RET_ALLOW)
	b.eperm = b.errno(unix.EPERM)
	b.enosys = b.errno(unix.ENOSYS)
	// A call through another architecture's entry (int 0x80 is one) would be
	// numbered differently. Nothing that belongs here does that, and a 32-bit program
	// could not run anyway: it is killed, with a SIGSYS that says so, rather than
	// left to crash later. x32 is this architecture with a high number:
	// ENOSYS, as on kernels without it.
	foreign := b.ret(unix.SECCOMP_RET_KILL_PROCESS)

	targets := b.targets()
	native := b.dispatch(targets, b.enosys)
	if native != len(b.code)-1 {
		return nil, fmt.Errorf("building the seccomp filter: nothing to dispatch")
	}
	native = b.load(offsetNr)
	b.jump(unix.BPF_JEQ, nativeArch, native, foreign)
	b.load(offsetArch)
	code := b.assemble()
	if len(code) > maxInstructions {
		return nil, fmt.Errorf("building the seccomp filter: %d instructions, at most %d", len(code), maxInstructions)
	}
	return code, nil
}

// builder writes the rules. Each of its methods returns the position of a
// block that ends in an action.
type builder struct {
	program
	nested, kept, closed bool
	allow, eperm, enosys int
}

// targets maps each known call to its block.
func (b *builder) targets() map[uint32]int {
	targets := map[uint32]int{}
	set := func(calls []uint32, target int) {
		for _, nr := range calls {
			targets[nr] = target
		}
	}
	set(allowed(), b.allow)
	set(refused(), b.eperm)
	set(nesting(), b.ifNested(b.eperm))
	maps.Copy(targets, b.rules())
	maps.Copy(targets, b.legacyRules())
	return targets
}

// ifNested allows where namespaces nest and goes to otherwise elsewhere.
func (b *builder) ifNested(otherwise int) int {
	if b.nested {
		return b.allow
	}
	return otherwise
}

// ifLoose is ifNested where mounts need not be kept.
func (b *builder) ifLoose(otherwise int) int {
	if b.kept {
		return otherwise
	}
	return b.ifNested(otherwise)
}
