package namespace

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"orrery/kit"
)

const (
	// Name of the controller.
	Name = "namespace-controller"
	// grace lets a deletion reach every API server, which then refuse new objects, and every etcd member.
	grace = 5 * time.Second
	// podsSettle gathers the deletions of a namespace's pods into few looks.
	podsSettle = 200 * time.Millisecond
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 10, resync: 5 * time.Minute}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"namespace"}, ServiceAccount: "namespace-controller",
		Summary:  "empties deleted namespaces, pods first, and removes them",
		AddFlags: o.addFlags, Validate: o.validate, Init: o.init,
		RBAC: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get", "list", "watch", "delete"}},
			{APIGroups: []string{""}, Resources: []string{"namespaces/finalize", "namespaces/status"}, Verbs: []string{"update"}},
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch", "delete", "deletecollection"}},
		},
	}
}

type options struct {
	workers int32
	resync  time.Duration
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-namespace-syncs", o.workers,
		"Number of deleted namespaces emptied at once. A larger number is faster and loads the API server more.")
	fs.DurationVar(&o.resync, "namespace-sync-period", o.resync,
		"The longest time between two checks of a namespace that is being deleted; 0 means that only its content decides.")
}

func (o *options) validate() []error {
	var errs []error
	if o.workers < 1 {
		errs = append(errs, fmt.Errorf("--concurrent-namespace-syncs must be at least 1, got %d", o.workers))
	}
	if o.resync < 0 {
		errs = append(errs, fmt.Errorf("--namespace-sync-period must be at least 0, where 0 sets no bound, got %s", o.resync))
	}
	return errs
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	namespaces := kit.Store[corev1.Namespace](cc)
	r := &reconciler{
		live: cc.Live, pods: kit.Store[corev1.Pod](cc), waiting: &waitingSet{}, seen: &sightings{},
		kinds: &kindList{discover: cc.Discovery.ServerPreferredNamespacedResources}, resync: cmp.Or(o.resync, math.MaxInt64),
	}
	return true, kit.NewController(cc, kit.Objects(namespaces, r)).
		Watch(
			kit.For(deletionSeen),
			kit.Watches(r.waiting.namespaceOf, podGone).Delayed(podsSettle),
		).
		Queue("namespace").Workers(int(o.workers)).Complete()
}

// deletionSeen picks the change by which a namespace is deleted, or its first sight in that state, and the one by which the
// spec of a deleted namespace gets a finalizer that it did not have: it is emptied, and finalized, once more. What changes
// later in a deleted namespace is mostly our own doing.
func deletionSeen(old, ns *corev1.Namespace) bool {
	if ns == nil || ns.DeletionTimestamp == nil {
		return false
	}
	return old == nil || old.DeletionTimestamp == nil || old.UID != ns.UID || slices.ContainsFunc(ns.Spec.Finalizers, func(f corev1.FinalizerName) bool {
		return !slices.Contains(old.Spec.Finalizers, f)
	})
}

func podGone(_, pod *corev1.Pod) bool { return pod == nil }
