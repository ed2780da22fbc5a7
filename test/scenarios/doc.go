// Package scenarios runs the real daemon against a real etcd, kube-apiserver and
// kube-scheduler, with kwok in place of kubelets, and checks what users of a
// cluster rely on. `make scenarios` runs it; ORRERY_BIN names the daemon under
// test, which is built when it is not set.
//
// Every cluster of these tests records what the daemon asks of the API server.
// When a test ends, whatever it was about, the daemon must not have been denied
// anything, must not have reported an error that the test did not announce, and
// must not have crashed.
//
// ORRERY_LONG=1 makes outages as long as real ones. ORRERY_KEEP=<folder> keeps
// the logs of failed tests there.
package scenarios
