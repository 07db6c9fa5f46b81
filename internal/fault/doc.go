// Package fault is a suite: it kills Forage's processes at random instants,
// fills its disk, spoils its records and takes its folders away, and then looks
// whether anything is left or lost. It holds nothing but tests.
package fault
