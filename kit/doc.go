// Package kit is what every controller is built from: the control loop once, generic and typed.
//
// A controller is a Reconciler, the sources of its keys and a number of workers:
//
//	kit.NewController(cc, reconciler).Watch(kit.For(changed), kit.Owns[corev1.Pod, appsv1.ReplicaSet]()).Workers(5).Complete()
//
// The kit owns the queue, the retry policy, panic isolation, read-your-writes, metrics, health and the debug page. A
// controller starts no goroutine, keeps no timer and knows no retry count: waiting is After, periodic work is Every,
// concurrent calls are Batch and SlowStart, everything else is a key.
//
// Promises of the loop, which its property test checks under random events, errors, panics and stops: a key is never
// lost, never runs twice at the same time, and runs again after its last change.
package kit
