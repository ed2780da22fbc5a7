// Package layout decides which EndpointSlices a Service should have. It is pure: it reads objects and returns a Plan,
// and neither calls the API server nor changes what it was given.
//
// One call of Pack lays out the endpoints of one address family. It groups the selected pods by the ports that the
// Service resolves to on them, keeps every endpoint in the slice that already holds it, and then makes room for the
// new ones with as few changed slices as it can: first in slices that change anyway, the fullest first, then in the
// untouched slice that all of them fill best, then in new slices. What a slice already says is compared field by
// field, so that a Service at rest costs no allocation per endpoint.
//
// Hints are laid over a Plan afterwards, by exactly one of Strip, Prefer and Spread.
package layout
