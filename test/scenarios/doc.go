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
// With SCENARIOS_KUBECONFIG the scenarios that need nothing but an API run against
// the cluster that it names, and the others are skipped: `make scenarios-against`.
// Who starts processes, reads logs or audits calls start or withOrrery, who does
// not calls anywhere. Pods have images with names such as fake:1; where a real
// kubelet runs them, it needs images of these names, which do nothing.
//
// ORRERY_LONG=1 makes outages as long as real ones. ORRERY_KEEP=<folder> keeps
// the logs of failed tests there.
package scenarios
