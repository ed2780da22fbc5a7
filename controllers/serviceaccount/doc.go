// Package serviceaccount gives every namespace its default ServiceAccount.
//
// Owns: the ServiceAccount "default" of each active namespace. Watches: Namespaces, ServiceAccounts. Writes: creates
// ServiceAccounts; existing ones are never changed.
//
// The rule it must never break: nothing is created in a terminating namespace.
package serviceaccount
