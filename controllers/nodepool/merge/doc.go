// Package merge decides the desired state of a Node: it merges what all matching pools specify, by their precedence, with
// the current state of the node and its record.
//
// It is pure and idempotent: the same node, pools and time give the same outcome, and merging again after an outcome was
// stored changes nothing. Which pools may act now (permits, pauses, back-off) is part of its input.
package merge
