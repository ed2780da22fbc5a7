// Package monitoring reads what the alerts, the dashboard and docs/metrics.md say about metrics, so that tests can hold it
// against what a daemon exposes.
package monitoring
