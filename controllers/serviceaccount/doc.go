// Package serviceaccount gives every namespace its default ServiceAccount.
//
// Owns: the ServiceAccount "default" of each active namespace. Watches: Namespaces, ServiceAccounts. Writes: creates
// ServiceAccounts, and nothing else: one that exists is never changed.
//
// The rule it must never break: nothing is created in a namespace that is going away.
package serviceaccount
