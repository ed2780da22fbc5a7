// Package deployment rolls Deployments out.
//
// It owns the ReplicaSets of a Deployment: it makes one per pod template, named after the template's hash, moves
// replicas from the old ones to the current one within the bounds of the strategy, keeps the old ones for rollbacks
// and deletes those beyond the history limit. It adopts ReplicaSets that match the selector and releases those that
// no longer do.
//
// It watches Deployments, their ReplicaSets, and the pods of Deployments that are to be recreated. It writes
// ReplicaSets, the status and revision annotation of Deployments, and, for the deprecated rollback annotation, the
// template.
//
// The rule it must never break: no size that it gives to a ReplicaSet may take the pods that can be counted on below
// spec.replicas less maxUnavailable, or the pods asked for above spec.replicas plus maxSurge.
package deployment
