// Package jjrepo is all that the host does with jj repositories, and the one place that starts jj. As
// in gitrepo, our jj works in a shadow: a .jj folder of our own, without configuration, whose store is by
// links that of the user's repository, and with a configuration file that we wrote.
package jjrepo
