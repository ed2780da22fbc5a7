// Command faults changes workloads of every kind, namespaces, owners, Services and
// nodes without a pause while a controller manager and its connection to the API
// server are being broken, and watches on a connection of its own that no rule is
// broken on the way; package checker has the rules. `make faults` runs it.
//
// The faults: the manager is killed, stopped, or frozen, above all when a CronJob
// is due; the API server is killed and started again; watches are cut or late;
// requests are refused with 409, 429 or 500; answers get lost.
//
// It prints its seed, every fault, and every violation with what was seen of the
// objects, and ends with exit code 1 if there was one. A seed draws the same
// faults and changes; what they meet is up to the machine.
package main
