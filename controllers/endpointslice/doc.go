// Package endpointslice writes the EndpointSlices of Services that have a selector.
//
// Owns: the slices labelled managed-by endpointslice-controller.k8s.io; a Service has one set of them per address
// family. Watches: Services, pods, nodes and slices. Writes: creates, updates and deletes those slices.
//
// What a slice should say is decided in layout, and which Services a pod concerns in internal/roster, both of which are
// pure. The roster takes the place of indexes of the cache, for three reasons. An index under every label pair costs
// memory for every pod and work for every pod update, whether or not a Service uses the pair. It cannot tell a pair that
// thousands of pods share from one that picks a few, and a selector often has both. And one static index would have to
// leave out some labels, which are then the slow ones. The roster costs one look-up per label for each pod that is new
// or changes, holds a name for each pod that a Service selects, and is filled from the cache after a restart.
//
// The rule it must never break: a slice with another managed-by value, and any slice of a Service without a selector,
// is not touched. Slices of a deleted Service are left to the garbage collector.
package endpointslice
