// Package httpx extends net/http for the servers of this module: it parses Accept headers, and has a ResponseWriter that
// remembers the status it has sent, Serve, which recovers the panics of a handler, serving certificates that can be replaced,
// and an error log for http.Server.
package httpx
