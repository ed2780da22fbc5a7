package replicas

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/cache"
	"orrery/kit/client"
)

// Kind tells the engine about one API kind of replicated pods. P is the pointer type of its objects, which are cached:
// the functions read them and change nothing.
type Kind[P client.Object] struct {
	// GVK names the kind in owner references.
	GVK schema.GroupVersionKind
	// Spec returns what the object asks for.
	Spec func(P) Spec
	// Status returns the object's status in the form of a ReplicaSet's.
	Status func(P) appsv1.ReplicaSetStatus
	// WithStatus returns a shallow copy of the object with this status, for sending.
	WithStatus func(P, appsv1.ReplicaSetStatus) P
	// Siblings is the index of objects of the kind by their controlling owner's UID; nil if nothing controls them.
	Siblings *cache.Index[P]
	// Terminating makes the status count the pods that are being deleted.
	Terminating bool
	// DeletionCost makes the pods' deletion cost count when some have to go.
	DeletionCost bool
	// AgeRatio, unless nil, is called for each ready pod chosen for deletion with its age divided by that of the youngest
	// ready pod.
	AgeRatio func(ratio float64)
	// Skipped, unless nil, is called each time a reconcile is put off because the cache of a resource lags.
	Skipped func(stale schema.GroupResource)
}

// Spec is what an object of replicated pods asks for. Selector and Template are shared with the object.
type Spec struct {
	Replicas        int32
	MinReadySeconds int32
	Selector        *metav1.LabelSelector
	Template        *corev1.PodTemplateSpec
}

// Rules returns the calls that the engine makes for a kind of this group and resource name.
func Rules(group, resource string) []rbacv1.PolicyRule {
	own := []string{group}
	return []rbacv1.PolicyRule{
		{APIGroups: own, Resources: []string{resource}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: own, Resources: []string{resource + "/status"}, Verbs: []string{"update"}},
		{APIGroups: own, Resources: []string{resource + "/finalizers"}, Verbs: []string{"update"}}, // blocks deletion of the owner
		{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "patch", "create", "delete"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}
