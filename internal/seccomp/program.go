package seccomp

import (
	"slices"

	"golang.org/x/sys/unix"
)

// program assembles classic BPF back to front, so that the target of a jump is
// always known when the jump is written. A position counts instructions from
// the end: it stays valid while the program grows at its front.
type program struct {
	code []unix.SockFilter // reversed
	rets map[uint32]int
	far  map[int]int // the last BPF_JA to a position
}

func newProgram() program { return program{rets: map[uint32]int{}, far: map[int]int{}} }

// Offsets in struct seccomp_data (seccomp(2)). Both architectures are
// little endian, so the low half of an argument comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

func (p *program) emit(code uint16, jt, jf uint8, k uint32) int {
	p.code = append(p.code, unix.SockFilter{Code: code, Jt: jt, Jf: jf, K: k})
	return len(p.code) - 1
}

// ret ends the filter with a seccomp action.
func (p *program) ret(action uint32) int {
	pos, ok := p.rets[action]
	if !ok {
		pos = p.emit(unix.BPF_RET|unix.BPF_K, 0, 0, action)
		p.rets[action] = pos
	}
	return pos
}

// errno makes the call fail.
func (p *program) errno(e unix.Errno) int {
	return p.ret(unix.SECCOMP_RET_ERRNO | uint32(e)&unix.SECCOMP_RET_DATA)
}

// jump compares the accumulator with k by op (BPF_JEQ, BPF_JGE, BPF_JSET).
func (p *program) jump(op uint16, k uint32, yes, no int) int {
	yes = p.near(yes)
	no = p.near(no)
	yes = p.near(yes) // an instruction added for no moved it away by one
	here := len(p.code)
	return p.emit(unix.BPF_JMP|op|unix.BPF_K, uint8(here-yes-1), uint8(here-no-1), k)
}

// near returns a position that leads to target and that a conditional jump,
// which spans at most 255 instructions, can reach from the next two positions:
// target itself, or a BPF_JA to it, shared between the jumps nearby.
func (p *program) near(target int) int {
	const reach = 254
	if len(p.code)-target-1 <= reach {
		return target
	}
	if far, ok := p.far[target]; ok && len(p.code)-far-1 <= reach {
		return far
	}
	p.far[target] = p.emit(unix.BPF_JMP|unix.BPF_JA, 0, 0, uint32(len(p.code)-target-1))
	return p.far[target]
}

// load puts a word of struct seccomp_data into the accumulator and goes on to
// the position that was written last.
func (p *program) load(offset uint32) int {
	return p.emit(unix.BPF_LD|unix.BPF_W|unix.BPF_ABS, 0, 0, offset)
}

// word masks the 32 low bits of an argument, which is all that the kernel
// itself looks at where a parameter is an int; a comparison of all 64 bits
// is passed by setting a high one.
type word struct {
	arg  uint32
	mask uint32
}

// low is the whole int in an argument.
func low(arg uint32) word { return word{arg, 0xffffffff} }

// test jumps by the masked argument.
func (p *program) test(w word, op uint16, k uint32, yes, no int) int {
	p.jump(op, k, yes, no)
	if w.mask != 0xffffffff {
		p.emit(unix.BPF_ALU|unix.BPF_AND|unix.BPF_K, 0, 0, w.mask)
	}
	return p.load(offsetArgs + 8*w.arg)
}

// equals goes to yes if the masked argument is k.
func (p *program) equals(w word, k uint32, yes, no int) int {
	return p.test(w, unix.BPF_JEQ, k, yes, no)
}

// anyOf goes to yes if the masked argument is one of values.
func (p *program) anyOf(w word, values []uint32, yes, no int) int {
	for _, v := range slices.Backward(values) {
		no = p.equals(w, v, yes, no)
	}
	return no
}

// bits goes to yes if the argument has one of the bits of mask.
func (p *program) bits(arg, mask uint32, yes, no int) int {
	return p.test(low(arg), unix.BPF_JSET, mask, yes, no)
}

// dispatch jumps by the accumulator, the number of the call, through a binary
// search; a number without a target goes to other.
func (p *program) dispatch(targets map[uint32]int, other int) int {
	// Cut the numbers into spans with the same target.
	type span struct {
		first  uint32
		target int
	}
	spans := []span{{0, other}}
	add := func(first uint32, target int) {
		last := &spans[len(spans)-1]
		switch {
		case last.first == first:
			last.target = target
		case last.target != target:
			spans = append(spans, span{first, target})
		}
	}
	numbers := make([]uint32, 0, len(targets))
	for nr := range targets {
		numbers = append(numbers, nr)
	}
	slices.Sort(numbers)
	for _, nr := range numbers {
		add(nr, targets[nr])
		add(nr+1, other)
	}
	var search func(spans []span) int
	search = func(spans []span) int {
		if len(spans) == 1 {
			return spans[0].target
		}
		half := len(spans) / 2
		above, below := search(spans[half:]), search(spans[:half])
		return p.jump(unix.BPF_JGE, spans[half].first, above, below)
	}
	return search(spans)
}

// assemble returns the program front to back.
func (p *program) assemble() []unix.SockFilter {
	code := slices.Clone(p.code)
	slices.Reverse(code)
	return code
}
