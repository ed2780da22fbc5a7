// Package selfsigned makes a certificate authority and a serving certificate for a webhook, for clusters where nobody
// else does. The authority's key is thrown away at once: a new certificate comes with a new authority.
package selfsigned
