// Package ttlafterfinished deletes Jobs some time after they have finished.
//
// Owns: nothing. Watches: Jobs. Writes: deletes Jobs, in the foreground, so that their pods go first.
//
// A Job with spec.ttlSecondsAfterFinished is deleted that many seconds after the transition time of its Complete or
// Failed condition. A finish time in the future, as clocks that differ make it, defers the deletion.
//
// The rule it must never break: a delete cannot be undone, so it is preceded by a read from the server and bound to
// the UID that was read. A Job whose TTL was raised, or a new Job of the same name, stays.
package ttlafterfinished
