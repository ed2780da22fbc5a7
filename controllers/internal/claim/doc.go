// Package claim decides which objects an owner controls, and makes it so.
//
// An object without a controller that matches the owner's selector is adopted; an object that the owner controls and
// that matches no longer is released. Both are patches that name the object's UID, so that a successor of the same
// name is never touched. Before its first adoption an owner is read live: one that is being deleted, or that has been
// replaced by a namesake, must not take objects that the garbage collector is about to orphan or delete.
//
// The rule it must never break: an object that another owner controls is left alone.
package claim
