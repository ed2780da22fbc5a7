// Package serviceaccounttoken looks after Secrets of type kubernetes.io/service-account-token.
//
// Owns: the token, CA and namespace in those Secrets, and references to them in ServiceAccounts. Watches:
// ServiceAccounts, Secrets. Writes: updates and deletes such Secrets, updates ServiceAccounts.
//
// It fills in the Secret that someone made for a ServiceAccount, deletes it when the account is gone, and takes a
// deleted Secret out of the account's list. It makes no Secret itself.
//
// The rule it must never break: a Secret is deleted only for an account of which the server says, or an event has
// shown, that it is gone; and it is written only from a fresh copy.
package serviceaccounttoken
