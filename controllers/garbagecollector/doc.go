// Package garbagecollector deletes objects whose owners are gone, and finishes deletions that wait for dependents.
//
// It owns the finalizers foregroundDeletion and orphan and the removal of owner references. It watches the metadata of
// every kind that can be deleted, listed and watched, through the shared cache, and follows kinds as they come and go;
// the watches feed the ownership graph of package graph. It writes deletions, with the UID and version that it decided
// on as preconditions, and patches of owner references and of its two finalizers.
//
// The rule it must never break: nothing is deleted because something was not seen. An owner counts as absent only where
// a watch has shown its deletion or a live read did not find it, and a kind that cannot be read holds up its own
// dependents and nobody else's.
package garbagecollector
