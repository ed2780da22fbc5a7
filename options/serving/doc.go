// Package serving holds the settings of the HTTPS side of the daemon: where it
// listens, its certificates, and how it authenticates and authorizes callers.
//
// Each of the three option structs is a plain value with a constructor for its
// defaults, AddFlags for its command line and Validate, which reports every
// problem at once. Nothing here opens a file or a socket; the server is package
// orrery/app/serving. Flag names, types and defaults are kube-controller-manager's,
// so that its static pod manifests can be used unchanged.
package serving
