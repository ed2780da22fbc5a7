// Package pki makes the certificates, keys and kubeconfig files of a control
// plane, in the layout and with the identities that kubeadm gives them: one
// cluster authority, one authority for the aggregation proxy, a key pair that
// signs service account tokens, and a client certificate per component.
//
// The certificates live one week: a local cluster does not, and a leaked key
// is worth nothing.
package pki
