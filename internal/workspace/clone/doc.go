// Package clone is the clone workspace.Provider: a private clone whose repository on the host is Forage's own; local sources lend their objects.
package clone
