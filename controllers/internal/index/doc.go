// Package index defines the cache indexes that several controllers share.
package index
