// Command faults injects faults into a controller manager and its connection to the
// API server while it continuously changes workloads of every kind, namespaces, owners,
// Services and nodes. Over a connection of its own, which has no faults, it verifies
// that the invariants in package checker hold all the time. `make faults` runs it.
//
// The faults: the manager is killed, stopped, or frozen, in particular when a CronJob
// is due; the API server is killed and restarted; watches are cut or delayed; requests
// are rejected with 409, 429 or 500; responses are lost.
//
// It prints its seed, every fault, and every violation with the history of the
// objects, and exits with code 1 if there was a violation. The same seed draws the
// same faults and changes; their timing depends on the machine.
package main
