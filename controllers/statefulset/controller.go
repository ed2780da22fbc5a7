package statefulset

import (
	"fmt"

	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/component-base/featuregate"

	"orrery/controllers/internal/history"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// Name of the controller.
const Name = "statefulset-controller"

const (
	staleConsistency = featuregate.Feature("StaleControllerConsistencyStatefulSet")
	maxUnavailable   = featuregate.Feature("MaxUnavailableStatefulSet")
	recreate         = featuregate.Feature("StatefulSetRecreateStrategy")
)

// Descriptor describes the controller to the daemon.
func Descriptor() kit.Descriptor {
	o := &options{workers: 5}
	return kit.Descriptor{
		Name: Name, Aliases: []string{"statefulset"}, ServiceAccount: "statefulset-controller", EventSource: "statefulset-controller",
		Summary:  "maintains the pods of StatefulSets, each with its own name and storage, in order",
		AddFlags: o.addFlags, Validate: o.validate, RBAC: rules(), Init: o.init,
	}
}

func rules() []rbacv1.PolicyRule {
	core, apps := []string{""}, []string{"apps"}
	return []rbacv1.PolicyRule{
		{APIGroups: apps, Resources: []string{"statefulsets"}, Verbs: []string{"get", "list", "watch"}},
		{APIGroups: apps, Resources: []string{"statefulsets/status", "statefulsets/finalizers"}, Verbs: []string{"update"}},
		history.Rule(),
		{APIGroups: core, Resources: []string{"pods"}, Verbs: []string{"list", "watch", "create", "patch", "delete"}},
		{APIGroups: core, Resources: []string{"pods/finalizers"}, Verbs: []string{"update"}}, // blocks deletion of the owner
		{APIGroups: core, Resources: []string{"persistentvolumeclaims"}, Verbs: []string{"list", "watch", "create", "update"}},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: []string{"create", "patch", "update"}},
	}
}

type options struct {
	workers int32
}

func (o *options) addFlags(fs *pflag.FlagSet) {
	fs.Int32Var(&o.workers, "concurrent-statefulset-syncs", o.workers,
		"Number of StatefulSets handled at once. A larger number reacts sooner and loads the API server more.")
}

func (o *options) validate() []error {
	if o.workers < 1 {
		return []error{fmt.Errorf("--concurrent-statefulset-syncs must be at least 1, got %d", o.workers)}
	}
	return nil
}

func (o *options) init(cc kit.ControllerContext) (bool, error) {
	m := newMetrics()
	if cc.Register != nil {
		m.publish(cc.Register)
	}
	r := &reconciler{
		sets:       kit.Store[appsv1.StatefulSet](cc),
		claims:     kit.Store[corev1.PersistentVolumeClaim](cc),
		namespaces: kit.Store[corev1.Namespace](cc),
		byOwner:    index.ByController[*corev1.Pod](),
		namesakes:  namesakes(),
		history:    history.NewKeeper(cc, history.StatefulSets()),
		client:     cc.Client,
		live:       cc.Live,
		events:     events{cc.Recorder},
		metrics:    m,
		rules:      strategies{maxUnavailable: cc.Gates.Enabled(maxUnavailable), recreate: cc.Gates.Enabled(recreate)},
		allowances: podctl.NewAllowances(),
	}
	r.pods = kit.Store(cc, r.byOwner, r.namesakes)
	w := watches{sets: r.sets}
	b := kit.NewController(cc, r).
		Watch(
			kit.For[appsv1.StatefulSet](),
			kit.Owns[corev1.Pod, appsv1.StatefulSet](matters),
			kit.WatchChanges[corev1.Pod](w.ofNamesakes).Named("pods of others"),
			kit.WatchChanges[corev1.PersistentVolumeClaim](w.waiting).Named("claims let go"),
		).
		Queue("statefulset").Workers(int(o.workers))
	if cc.Gates.Enabled(staleConsistency) {
		b = b.OnSkip(m.skips.Add)
	}
	return true, b.Complete()
}
