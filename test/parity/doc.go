// Command parity gives the same input to two clusters, one that Orrery manages
// and one that upstream's kube-controller-manager manages, and compares all
// objects that come of it. `make parity` runs it.
//
// The input is a number of programs. Each has a namespace of its own and
// consists of steps, such as "create a Deployment" or "let two pods fail", that
// a generator has drawn from the seed. After each step the two namespaces have
// to become equal, and to stay so for a moment. What cannot be equal, such as
// names drawn at random, UIDs, times and addresses, is made so before; see
// normalize. Events are compared at the end of a program.
//
// No kubelet and no kwok runs: the command itself plays all nodes, so that a
// step can also say what a pod does; see kubelet.
//
// Some differences come from how fast each manager was, above all on a busy
// machine. -seed with -index plays one program again, -only draws from some
// generators, -v prints every step, and -keep keeps the logs.
package main
