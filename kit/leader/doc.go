// Package leader ensures that of several processes one at a time does the work, and that only that one writes.
//
// An Election runs a function while this process holds a Lease. It renews the lease on a connection of its own until the
// function has returned, and then releases it. A Fence guards all writes of that function: it is open for a lease
// duration after each successful renewal and shut otherwise, even in a process that was paused and does not know yet that
// another one leads.
//
// With a Candidate the API server chooses who leads: the process waits until it is named in the lease, and shuts down when
// another one is preferred.
package leader
