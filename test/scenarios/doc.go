// Package scenarios runs the real daemon against a real etcd, kube-apiserver and
// kube-scheduler, with kwok in place of kubelets, and checks what users of a
// cluster rely on. `make scenarios` runs it; ORRERY_BIN names the daemon under
// test, which is built when it is not set.
//
// Every cluster of these tests records the daemon's API requests. At the end of
// every test, the daemon must not have been denied any request, must not have
// logged an error that the test did not expect, and must not have crashed.
//
// With SCENARIOS_KUBECONFIG the scenarios that use only the API run against the
// cluster that it names, and the others are skipped: `make scenarios-against`.
// Tests that start processes, or read logs or the audit log, call start or
// withOrrery; all others call anywhere. Pods have images with names such as
// fake:1; real kubelets need images of these names, which do nothing.
//
// ORRERY_LONG=1 makes outages as long as real ones. ORRERY_KEEP=<folder> keeps
// the logs of failed tests there.
package scenarios
