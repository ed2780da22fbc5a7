// Package selfsigned makes serving certificates for clusters without a tool that issues them: certificates with an authority
// of their own, as a webhook needs, or self-signed ones. The authority's key is never kept: a new certificate comes with a
// new authority.
package selfsigned
