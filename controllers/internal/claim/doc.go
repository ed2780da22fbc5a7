// Package claim decides which objects an owner controls, and makes it so.
//
// An object without a controller that matches the owner's selector is adopted; an object that the owner controls and
// that no longer matches is released. Both are patches that name the object's UID, so that a later object of the same
// name is never touched. Before its first adoption an owner is read live: one that is being deleted, or that has been
// replaced by another object of its name, must not adopt what the garbage collector is about to orphan or delete.
//
// The rule it must never break: an object that another owner controls is left alone.
package claim
