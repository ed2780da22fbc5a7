// Package httpx has what the servers of this module share beyond net/http: the Accept header read in order of preference,
// a ResponseWriter that remembers the status it has sent, handlers whose panics are caught, serving certificates that can be
// replaced, and the server's error log.
package httpx
