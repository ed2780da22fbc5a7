// Package leader sees to it that of several processes one at a time does the work, and that only that one writes.
//
// An Election runs a function while this process holds a Lease, renews it on a connection of its own until the function
// has returned, and gives it back then. A Fence stands in front of all writes of the work: it is open for a lease
// duration after each successful renewal, and shut otherwise, also in a process that was paused and does not know yet
// that another leads.
//
// With a Candidate it is the API server that chooses who leads: the process waits until it is named in the lease, and ends
// its work in order when another one is preferred.
package leader
