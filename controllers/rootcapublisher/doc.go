// Package rootcapublisher gives every namespace the ConfigMap kube-root-ca.crt, from which pods learn the CA of the API
// server.
//
// Owns: the data of that ConfigMap, and its description annotation. Watches: Namespaces, ConfigMaps.
// Writes: creates and updates ConfigMaps.
//
// The CA bundle comes from --root-ca-file, or else from the process's own kubeconfig. Where neither has one, as with a
// server of a public authority, it is empty, and published all the same: no pod starts without the ConfigMap. The file is
// read again while the process runs, and a changed bundle is published everywhere.
//
// The rule it must never break: an unreadable or empty file never replaces a bundle that was published.
package rootcapublisher
