// Package jj is the jj workspace.Provider: a real workspace of the user's jj repository on the host, and
// inside, over its .jj, a private jj repository that has the host's commits read-only. Between them jjrepo
// imports. The host's workspace is the user's to use: nothing here ever moves it.
package jj
