// Package client is the controllers' way to the API server: one small generic API for typed, unstructured and
// metadata-only objects.
//
// Reads and writes are split. A Client reads from the shared cache where one is attached and always writes to the
// server; Live returns the same client reading from the server; DryRun returns one whose writes are only validated.
// Every write is noted in the WriteLog of its context, from which the control loop learns what its cache has to show
// before the same key may be reconciled again.
//
// No function changes the object it is given: objects often come from the cache, which every controller shares.
// The server's answer is returned as a new object.
package client
