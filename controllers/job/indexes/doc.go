// Package indexes holds sets of completion indexes, in the compact form that the status of an Indexed Job has:
// "0-5,7". All work is linear in the number of intervals, not in that of the indexes.
package indexes
