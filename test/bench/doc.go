// Bench measures Orrery against kube-controller-manager: the same phases, one after the other, on the same cluster,
// each with a fresh controller manager process. These machines are noisy, so what counts are the ratios of one run.
package main
