// Package wire leaves fields out of protobuf messages before they are decoded.
//
// A cache drops much of what a watch sends as soon as it is decoded, such as managed fields and most of a pod's containers.
// Decoding those fields takes longer than everything else on the way to the cache, and causes most of the process's
// allocations. The fields to leave out are given by number, as they are on the wire. All other fields, unknown ones
// included, are copied unchanged. A message that cannot be parsed is reported as such, so that the caller can pass it to
// the decoder whole.
package wire
