// Conformance runs the specs of the Kubernetes project's end-to-end tests whose outcome a controller manager decides:
// once with kube-controller-manager and once with Orrery, each on a fresh cluster of its own, and compares.
//
// Nodes are fake and no container runs, so some specs cannot pass with anything. Those that pass with upstream's manager
// are listed in passing.txt, and only these run unless everything is asked for. Controllers that Orrery does not have
// are upstream's, running beside it under a lease of their own, as on a control-plane node; the report says for each
// subject who decides it.
//
// A spec has two attempts, because the specs wait for a bounded time and machines are busy. One that needs the second
// is reported. A spec that passes with upstream and not with Orrery fails the run.
package main
