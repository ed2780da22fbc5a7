// Package job runs pods to completion.
//
// Owns: pods. Watches: Jobs, pods. Writes: creates, adopts, releases and deletes pods, takes the tracking finalizer off
// them; Job status.
//
// A reconcile surveys the Job's pods, decides whether the Job is over (ending.go) and what to create or delete (plan.go),
// does that (scale.go), and accounts for finished pods (tally.go, account.go). A second loop frees pods that no Job will
// count any more (orphans.go).
//
// The rule it must never break: every finished pod is counted once. Its UID is stored in the Job's status before its
// finalizer is removed, and afterwards moves from there into a counter. A process that takes over between two of these
// writes can tell from the status and the pods which step comes next.
package job
