// Package selfsigned makes serving certificates for clusters where nobody else does: with an authority of their own, as a
// webhook needs, or as their own authority. The authority's key is thrown away at once: a new certificate comes with a new
// authority.
package selfsigned
