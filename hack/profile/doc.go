// Command profile leaves the names of files out of a CPU profile, which say where it was built and not what it did, so
// that it can be kept beside the program that the compiler optimizes by it.
//
//	go run ./hack/profile FILE
package main
