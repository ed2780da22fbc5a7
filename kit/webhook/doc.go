// Package webhook is an admission server: the API server asks it to default and to validate objects before they are
// stored.
//
// A program says for a type what its defaults are and what is wrong with an object; the server does the rest: admission
// v1, JSON patches, warnings, TLS with certificates that are read again when their files change, and metrics. What it
// answers is either a decision, or, where there is none because a handler panicked, failed or ran out of time, status
// 500, on which the API server does what failurePolicy says. Nothing a handler does ends the server.
package webhook
