// Package workspacetest is what every workspace.Provider has to pass, with real git and jj, and the
// repositories to pass it with: the usual one, a big one, and those that are unlike it. Work inside is done
// with the planned mounts in a mount namespace of its own, without a sandbox around it: attacks
// on a running sandbox are in package acceptance.
package workspacetest
