package replicas

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

// reconciler serves one kind: T is its API type, P the pointer to it.
type reconciler[T any, P client.Ptr[T]] struct {
	kind       Kind[P]
	sets       cache.Store[P]
	bySelector cache.Index[P]
	pods       cache.Store[*corev1.Pod]
	namespaces cache.Store[*corev1.Namespace]
	byOwner    cache.Index[*corev1.Pod]
	orphans    cache.Index[*corev1.Pod]
	control    podctl.Control
	client     *client.Client
	live       *client.Client
	allowances *podctl.Allowances
	log        klog.Logger
}

// Complete builds the controller of a kind and hands it to the process. queue is its name in metrics.
func Complete[T any, P client.Ptr[T]](cc kit.ControllerContext, kind Kind[P], queue string, workers int) error {
	return newReconciler[T](cc, kind).complete(cc, queue, workers)
}

func newReconciler[T any, P client.Ptr[T]](cc kit.ControllerContext, kind Kind[P]) *reconciler[T, P] {
	r := &reconciler[T, P]{
		kind:       kind,
		bySelector: bySelector(kind),
		byOwner:    index.ByController[*corev1.Pod](),
		orphans:    index.Orphans[*corev1.Pod](),
		control:    podctl.Control{Client: cc.Client, Recorder: cc.Recorder},
		client:     cc.Client,
		live:       cc.Live,
		allowances: podctl.NewAllowances(),
		log:        cc.Log,
	}
	indexes := []cache.Index[P]{r.bySelector}
	if kind.Siblings != nil {
		indexes = append(indexes, *kind.Siblings)
	}
	r.sets = kit.Store[T, P](cc, indexes...)
	r.pods = kit.Store(cc, r.byOwner, r.orphans)
	r.namespaces = kit.Store[corev1.Namespace](cc)
	return r
}

func (r *reconciler[T, P]) complete(cc kit.ControllerContext, queue string, workers int) error {
	b := kit.NewController(cc, kit.Func[kit.Key](r.serve)).
		Watch(
			kit.For[T, P](),
			kit.Owns[corev1.Pod, T, *corev1.Pod, P](podctl.Matters),
			kit.WatchChanges(r.wantingOrphan).Named("orphan pods"),
		).
		Queue(queue).Workers(workers)
	if r.kind.Skipped != nil {
		b = b.OnSkip(r.kind.Skipped)
	}
	return b.Complete()
}

// bySelector files objects under a label that their selector requires, so that those that may want an orphan are found
// from its labels.
func bySelector[P client.Object](kind Kind[P]) cache.Index[P] {
	return cache.Index[P]{Name: "selector", Keys: func(set P) []string {
		return index.SelectorKeys(set.GetNamespace(), kind.Spec(set).Selector)
	}}
}
