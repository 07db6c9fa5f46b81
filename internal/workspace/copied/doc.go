// Package copied is the copy workspace.Provider: a private copy of a folder that has no repository.
package copied
