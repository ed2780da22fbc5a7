// Package graph knows which object owns which. It is fed with what the watches show and with what live reads have
// proven, and answers each change with what to look at next. It has no client, no queue and no clock; every call is
// short and under one lock, so that it may be fed from the goroutines of the informers.
//
// A node is observed once a watch has shown its object. An owner that only its dependents' references speak of is
// virtual: nothing may be concluded from it before a live read has been made.
//
// An object is absent where a watch has shown its deletion or a live read did not find it; that a list lacks it is a
// reason to ask, never a proof.
package graph
