// Package native isolates with the kernel's own means and nothing else: it clones the program
// itself into fresh namespaces. It needs no root, no helper program and no daemon.
// What is built there is child's business.
package native

import (
	"forage/internal/runtime/child"
)

// Name is the runtime's name in plans and commands.
const Name = "native"

// New makes the runtime for a run-time folder. self is the program that is started as guest; "" is
// the running one.
func New(dir, self string) *child.Runtime {
	return child.New(child.Config{
		Name: Name, Description: "Linux namespaces, without root and without helpers",
		Namespaces: child.Clone{}, Dir: dir, Self: self,
	})
}
