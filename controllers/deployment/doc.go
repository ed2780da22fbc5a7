// Package deployment rolls out Deployments.
//
// It owns the ReplicaSets of a Deployment: it creates one per pod template, named after the template's hash, moves
// replicas from the old ones to the current one within the bounds of the strategy, keeps the old ones for rollbacks
// and deletes those beyond the history limit. It adopts ReplicaSets that match the selector and releases those that
// no longer do.
//
// It watches Deployments, their ReplicaSets, and the pods of Deployments with the Recreate strategy. It writes
// ReplicaSets, the status and revision annotation of Deployments, and, for the deprecated rollback annotation, the
// template.
//
// The rule it must never break: resizing a ReplicaSet must not take the number of pods that are sure to stay available
// below spec.replicas minus maxUnavailable, or the total size above spec.replicas plus maxSurge.
package deployment
