// Package app is the daemon: the command, and Run, which validates the options, makes the clients, serves HTTP, takes
// the leader lease, starts the controllers in a fixed order, and on SIGTERM stops them before it releases the lease.
package app
