// Package acceptance holds the tests that stand for the user: the program as it
// is built, the real agent as it is installed, an ordinary user, and nothing faked but the
// other end of the internet. It has no code of its own and is not for what
// a single room can test by itself.
package acceptance
