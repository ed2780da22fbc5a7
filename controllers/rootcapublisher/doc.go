// Package rootcapublisher maintains the ConfigMap kube-root-ca.crt in every namespace, from which pods get the CA of the
// API server.
//
// Owns: the data of that ConfigMap, and its description annotation. Watches: Namespaces, ConfigMaps.
// Writes: creates and updates ConfigMaps.
//
// The CA bundle comes from --root-ca-file or, if that is not set, from the process's own kubeconfig. If neither has one,
// because the server's certificate is issued by a public CA for example, an empty bundle is published: no pod starts
// without the ConfigMap. The file is read again periodically, and a changed bundle is published everywhere.
//
// The rule it must never break: an unreadable or empty file never replaces a bundle that was published.
package rootcapublisher
