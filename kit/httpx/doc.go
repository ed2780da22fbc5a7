// Package httpx has what the servers of this module share beyond net/http: the Accept header read in order of preference,
// and a ResponseWriter that remembers the status it has sent.
package httpx
