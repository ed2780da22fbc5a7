// Package webhook is an admission webhook server: the API server calls it to default and validate objects before they are
// stored.
//
// A program provides functions that default and validate the objects of a type. The server does the rest: admission v1,
// JSON patches, warnings, TLS with certificates that are reloaded when their files change, and metrics. It answers with a
// decision, or, if a handler panicked, failed or ran out of time, with status 500, upon which the API server applies the
// failurePolicy. Nothing that a handler does ends the server.
package webhook
