// Package serving holds the settings of the HTTPS side of the daemon: where it
// listens, with which certificates, how it finds out who calls (authentication)
// and whether they may (authorization).
//
// Each of the three option structs is a plain value with a constructor for its
// defaults, AddFlags for its command line and Validate, which reports every
// problem at once. Nothing here opens a file or a socket; the server that acts on
// the values is package orrery/app/serving. Flag names, types and defaults are
// kube-controller-manager's, since static pod manifests carry them over as they are.
package serving
