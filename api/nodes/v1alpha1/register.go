package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group. It is the operator's own domain too: pools write no key in it.
const GroupName = "nodes.orrery.dev"

// SchemeGroupVersion is the group and version of the types in this package.
var SchemeGroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// Kind and resource of the NodePool.
var (
	NodePoolKind     = SchemeGroupVersion.WithKind("NodePool")
	NodePoolResource = SchemeGroupVersion.WithResource("nodepools")
)

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(SchemeGroupVersion, &NodePool{}, &NodePoolList{})
	metav1.AddToGroupVersion(s, SchemeGroupVersion)
	return nil
}
