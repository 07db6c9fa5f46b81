// Package gitrepo is all that the host does with git repositories, and the one place that starts
// git. No git process of ours on the host reads the configuration, the attributes or the hooks of a
// repository: each works in a shadow, a git directory of our own whose configuration we wrote and
// whose objects and refs are, by links, those of the repository. The settings of the user's
// repository are data; what is on a short list is copied. The one exception is a `git config
// --get-regexp`, which executes nothing: see LineEnds. What the sandbox writes, its metadata and
// its working folder, is read by git in a jail alone: see transport.go and folder.go.
package gitrepo
