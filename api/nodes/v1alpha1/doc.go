// Package v1alpha1 is the API group nodes.orrery.dev in version v1alpha1: the NodePool, which says what the nodes of a
// pool carry. It imports nothing but apimachinery, so that clients can use it without the daemon.
//
// Most mistakes are refused by the schema and its CEL rules, with no webhook at work. The same rules, and those that
// need a look at other objects, are functions of package admission.
//
// +kubebuilder:object:generate=true
// +groupName=nodes.orrery.dev
package v1alpha1
