// Package jj is the jj workspace.Provider: a real workspace of the user's jj repository, with private metadata over its .jj inside.
package jj
