// Package wire leaves fields out of protobuf messages before they are decoded.
//
// Of what a watch sends, a cache drops much as soon as it is decoded: managed fields of all kinds, most of a pod's
// containers. To decode it first takes longer than the rest of the way to the cache, and most of what the process
// allocates. Which fields go is said by number, as the wire has them; what is kept is copied as it is, unknown fields
// included. A message that cannot be read is left as it is, for the decoder to complain about.
package wire
