// Package roster keeps, for each object that selects pods of its namespace, the names of the pods that it selects, and
// finds the objects that select a given pod. It makes the cost of a pod change independent of the number of pods and
// selectors in the namespace. The objects are Services and disruption budgets; a roster knows only their Selection.
//
// Every selection is filed under one pair of its labels: the one that the fewest selections of the namespace share. The
// selections for a pod are looked up by its label pairs, and whole selectors are evaluated only for those found. Selections
// without labels, which have only expressions or select everything, are evaluated for every pod of the namespace. When a
// pod changes, its name is added to the selections that match it; nothing else about the pod is stored.
//
// The names are candidates: Select looks up each in the cache, and drops those of pods that do not exist or no longer match.
// Events therefore only need to add names, in any order, and a late event does no harm. Pods that existed before an
// object was added, or before its selector changed, are found by one pass over the namespace.
package roster
