// Package skips counts, under upstream's metric names, the reconciles that a controller puts off because the cache does not
// show its own last write yet.
package skips
