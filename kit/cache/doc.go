// Package cache holds one informer per kind for all controllers of the process.
//
// A kind is cached in one of three forms: structured (Go types of the scheme), unstructured, and metadata-only. A
// request for the metadata of a kind that is cached structured is served by that informer, so that no kind is watched
// twice. Lists and watches are built from the RESTMapper; resync is off; transforms drop what no enabled controller
// reads, managed fields first.
//
// Everything handed out is shared and read-only.
package cache
