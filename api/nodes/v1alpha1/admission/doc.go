// Package admission holds what a webhook for NodePools decides: defaults, errors and warnings, as functions of the
// object and of what is known of others. It serves nothing itself and asks nobody.
//
// Errors name the field and say what would be right. What only the cluster can tell, such as whether two pools meet on a
// node, is as fresh as the caller's knowledge: the controller resolves what slips through, and reports it.
package admission
