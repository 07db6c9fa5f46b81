// Package gitrepo is all that the host does with git repositories, and the one place
// that starts git. No git process of ours ever reads the configuration, the attributes or the
// hooks of a repository: each works in a shadow, a git directory of our own whose
// configuration we wrote and whose objects and refs are, by links, those of the repository. What
// a repository's configuration says is read as data, and what is on a short list is copied. The
// one exception is a `git config --get-regexp`, which executes nothing: see LineEnds.
// Private metadata, which the sandbox writes, is opened by git in a jail alone: see fetch.
package gitrepo
