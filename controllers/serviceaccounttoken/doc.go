// Package serviceaccounttoken manages Secrets of type kubernetes.io/service-account-token.
//
// Owns: the token, CA and namespace in those Secrets, and references to them in ServiceAccounts. Watches:
// ServiceAccounts, Secrets. Writes: updates and deletes such Secrets, updates ServiceAccounts.
//
// It fills in Secrets that users create for a ServiceAccount, deletes them after the account is deleted, and removes
// deleted Secrets from the account's list. It creates no Secrets itself.
//
// The rule it must never break: a Secret is deleted only if the server, or a watch event, has shown that its account does
// not exist any more; and a Secret is written only from a fresh copy.
package serviceaccounttoken
