// Package imports holds the test that keeps the rooms of this module apart: which
// package may import which, who may start processes and which modules the program links.
// It has no code of its own; the tables are in its test files, with the reason beside each row.
package imports
