// Package record is the memory that pools have of a Node, kept on the Node itself: which keys each pool owns, what was
// there before, and which pools the node has joined.
//
// It is pure: it reads a record from an annotation, changes it together with the state that it tells of, and writes it
// again. Whoever stores both in one patch, bound to the version that was read, can give a node back bit for bit: what a
// pool has set and nobody has changed since goes back to what it was, and everything else is left alone.
//
// A record that cannot be read, or that comes of a later version, is an error and never an empty record: nothing may be
// taken from a node on the word of a record that is not understood.
package record
