// Package layout decides which EndpointSlices a Service should have. It is pure: it reads objects and returns a Plan. It
// makes no API calls and does not modify its input.
//
// Pack distributes the endpoints of one address family over slices. It groups the selected pods by the port numbers that
// the Service's ports resolve to on them, keeps every endpoint in the slice that already holds it, and then places new
// endpoints so that as few slices as possible change: first in slices that change anyway, the fullest first, then in the
// unchanged slice that has the least room left after taking all of them, then in new slices. Existing slices are compared
// field by field, so that a Service without changes causes no allocation per endpoint.
//
// Topology hints are added to a Plan afterwards, by exactly one of Strip, Prefer and Spread.
package layout
