// Package probe tries, from inside a sandbox, what an agent must not be able
// to do, and says for each whether the wall held. `doctor --prove` runs it in
// every runtime, and so does the escape suite: what users are told is what is
// tested. It attacks; it holds nothing up itself.
package probe

import (
	"context"
	"fmt"

	"forage"
)

// Argument is the first argument with which our program runs the probes.
const Argument = "prove-inside"

// Result says how one wall did.
type Result struct {
	Group  string `json:"group"`  // what it belongs to: "kernel"
	Wall   string `json:"wall"`   // what must not work: "making a user namespace"
	Held   bool   `json:"held"`   // it did not work
	Detail string `json:"detail"` // how it was refused, or what got through
}

// wall is one thing that must not work. try does it, and returns the error
// with which it was refused, or nil or a through when it worked.
type wall struct {
	group, name string
	try         func(context.Context) error
}

// Options say what the sandbox is allowed, which is then not a broken wall, and what it is promised.
type Options struct {
	NestedNamespaces bool          `json:"nestedNamespaces,omitempty"`
	Environment      []string      `json:"environment,omitempty"` // the names of its variables
	Limits           forage.Limits `json:"limits,omitzero"`
	Protected        string        `json:"protected,omitempty"` // a protected file; "" is none
	Socket           string        `json:"socket,omitempty"`    // a socket of the host's in a mounted folder; "" is none
}

// Run tries every wall in turn. It is meant for a sandbox whose network mode is none.
func Run(ctx context.Context, opts Options) []Result {
	var results []Result
	for _, group := range [][]wall{identityWalls(opts), kernelWalls(opts), fileWalls(opts), processWalls(), networkWalls(), promiseWalls(opts)} {
		for _, wall := range group {
			err := wall.try(ctx)
			result := Result{Group: wall.group, Wall: wall.name, Detail: "it worked"}
			if err != nil {
				_, worked := err.(through)
				result.Held, result.Detail = !worked, err.Error()
			}
			results = append(results, result)
		}
	}
	return results
}

// through says what got through a wall.
type through string

func (t through) Error() string { return string(t) }

// must turns a fact that ought to be so into a wall's error: nil, which
// means broken, when it is not.
func must(ok bool, format string, args ...any) error {
	if ok {
		return fmt.Errorf(format, args...)
	}
	return nil
}
