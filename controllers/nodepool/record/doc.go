// Package record implements the record that pools keep on a Node: which keys each pool owns, their previous values, and which
// pools the node has joined.
//
// It is pure: it parses a record from an annotation, changes it together with the state that it describes, and formats it
// again. If both are stored in one patch with a resourceVersion precondition, a node can be restored exactly: keys that a
// pool has set and nobody has changed since get their previous values back, and everything else is left alone.
//
// A record that is malformed, or of a later version, is an error and never an empty record: nothing may be removed from a
// node because of a record that is not understood.
package record
