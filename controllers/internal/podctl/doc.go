// Package podctl holds what every controller of pods needs to know and do about one pod.
//
// Decisions (is it ready, available, active, terminating, which one to delete first) are pure functions of the cached
// pod and the time. Steps (create, delete) write to the server and publish the events that users know.
//
// The rule it must never break: pods passed in are shared and read-only.
package podctl
