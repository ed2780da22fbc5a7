// Package endpointslice writes the EndpointSlices of Services that have a selector.
//
// Owns: the slices labelled managed-by endpointslice-controller.k8s.io; a Service has one set of them per address
// family. Watches: Services, pods, nodes and slices. Writes: creates, updates and deletes those slices.
//
// Package layout decides the content of the slices, and internal/roster which Services select a pod; neither calls the API.
// The roster is used instead of cache indexes for three reasons. An index by every label pair costs memory for every pod
// and time for every pod update, whether or not a Service uses the pair. It does not distinguish a pair that thousands of
// pods share from one that selects a few, and a selector often has both. And an index that leaves out some labels is slow
// for just these. The roster costs one look-up per label for each pod that is added or changed, holds a name for each pod
// that a Service selects, and is filled from the cache after a restart.
//
// The rule it must never break: slices with another managed-by value, and all slices of Services without a selector, are
// left alone. Slices of a deleted Service are left to the garbage collector.
package endpointslice
