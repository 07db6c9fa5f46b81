// Package nofile knows the limit of open files (RLIMIT_NOFILE) that this process was started with.
// Package syscall raises it, and gives it back only to what it starts by itself. This package
// imports nothing, and so is initialised before syscall: the Go Programming Language Specification,
// "Program initialization".
package nofile

// Limit is the struct rlimit of getrlimit(2).
type Limit struct{ Soft, Hard uint64 }

var inherited = read()

// Inherited is the limit that this process was started with.
func Inherited() Limit { return inherited }

func read() (l Limit) {
	getrlimit(&l)
	return l
}

//go:noescape
func getrlimit(l *Limit)
