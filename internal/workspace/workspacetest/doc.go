// Package workspacetest is what every workspace.Provider has to pass, with real git and jj.
package workspacetest
