// Package roster keeps, for each object that selects pods of its namespace, the names of the pods that it matches, and
// finds the objects that select a pod. It is what makes the cost of one pod change independent of how many pods and
// selectors a namespace has. The objects are Services and disruption budgets; a roster knows of them no more than a
// Selection.
//
// Every selection is filed under one pair of its labels, the one that the fewest selections of the namespace share. A
// pod is looked up by its label pairs, and whole selectors are compared only for the selections filed there. One without
// labels, which has only expressions or selects all, is compared with every pod of the namespace. A pod's change files
// its name with the selections that match it; nothing else is kept of the pod.
//
// The names are candidates: Select looks every one up in the cache, and drops those that are gone or match no longer.
// An event therefore only ever has to add, in any order, and a late one does no harm. Pods that were there before an
// object became known, or before its selector changed, are found by one pass over the namespace.
package roster
