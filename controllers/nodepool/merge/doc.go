// Package merge decides what a Node has to become: it merges what all pools that match ask for, by their precedence,
// with what the node has and what its record remembers.
//
// It is pure and total: the same node, pools and time give the same outcome, and an outcome that was stored gives no
// further change. Who may act now (permits, pauses, back-off) is told to it; it asks nobody.
package merge
