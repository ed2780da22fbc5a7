// Package roster keeps, for each Service, the names of the pods that its selector matches, and finds the Services that
// select a pod. It is what makes the cost of one pod change independent of how many pods and Services a namespace has.
//
// Every Service is filed under one pair of its selector, the one that the fewest Services of the namespace share. A
// pod is looked up by its label pairs, and whole selectors are compared only for the Services filed there. A pod's
// change files its name with the Services that select it; nothing else is kept of the pod.
//
// The names are candidates: Select looks every one up in the cache, and drops those that are gone or match no longer.
// An event therefore only ever has to add, in any order, and a late one does no harm. Pods that were there before a
// Service became known, or before its selector changed, are found by one pass over the namespace.
package roster
