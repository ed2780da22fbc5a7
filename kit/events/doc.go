// Package events publishes what happens to objects as Events of the cluster.
//
// Similar events are merged and floods are cut, as everywhere in Kubernetes; what will be cut is dropped before it costs
// anything. A recorder never blocks its caller; a process that stops in order sends what it still has.
package events
