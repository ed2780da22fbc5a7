// Package ttlafterfinished deletes finished Jobs after their TTL has expired.
//
// Owns: nothing. Watches: Jobs. Writes: deletes Jobs, in the foreground, so that their pods are deleted first.
//
// A Job with spec.ttlSecondsAfterFinished is deleted that many seconds after the transition time of its Complete or
// Failed condition. If clock skew puts that time in the future, the deletion is delayed accordingly.
//
// The rule it must never break: a delete cannot be undone, so it is preceded by a read from the server and bound to
// the UID that was read. A Job whose TTL was raised, or a new Job of the same name, stays.
package ttlafterfinished
