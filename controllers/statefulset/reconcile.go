package statefulset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/history"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	sets       cache.Store[*appsv1.StatefulSet]
	pods       cache.Store[*corev1.Pod]
	claims     cache.Store[*corev1.PersistentVolumeClaim]
	namespaces cache.Store[*corev1.Namespace]
	byOwner    cache.Index[*corev1.Pod]
	namesakes  cache.Index[*corev1.Pod]
	history    *history.Keeper
	client     *client.Client
	live       *client.Client
	events     events
	metrics    metrics
	rules      strategies
	allowances *podctl.Allowances
}

// Reconcile brings a set one step closer to its desired state.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	set, ok := r.sets.Get(key)
	if !ok {
		r.metrics.forget(key)
		r.allowances.Forget(key)
		return kit.Done, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return kit.Done, kit.Terminal(fmt.Errorf("read selector of %s: %w", klog.KObj(set), err))
	}
	recheck := claim.Live(r.live, set)
	sorted, err := r.history.Claim(ctx, set, selector, recheck)
	if err != nil {
		return kit.Done, err
	}
	pods, unreleased := r.claim(ctx, set, selector, recheck)
	if !claim.OnlyReleases(unreleased) {
		return kit.Done, unreleased
	}
	var next kit.Result
	revs, err := r.revisionsOf(ctx, set, sorted)
	if err == nil {
		next, err = r.sync(ctx, set, pods, revs)
	}
	// Surplus revisions may hold the quota that a new one waits for.
	return next, errors.Join(unreleased, err, r.truncate(ctx, set, pods, revs, sorted))
}

// sync acts on a set, and then reports its state from before, without the pods that were deleted for an update.
func (r *reconciler) sync(ctx context.Context, set *appsv1.StatefulSet, pods []*corev1.Pod, revs revisions) (kit.Result, error) {
	if err := r.allow(set); err != nil {
		return kit.Done, kit.Terminal(err)
	}
	s := r.observe(set, pods, revs)
	p, rest := r.measure(ctx, s, s.plan())
	done, err := r.apply(ctx, s, p)
	if refused := p.creations() - done.created; refused > 0 {
		r.allowances.GiveBack(kit.KeyOf(s.set), refused)
		rest = kit.Done // the back-off alone delays what is refused
	}
	status := s.status(p, done.updated)
	if s.rules.maxUnavailable {
		r.metrics.observe(s)
	}
	return kit.Sooner(rest, s.nextReconcile(status)), errors.Join(err, r.report(ctx, s.set, status))
}

// observe makes the state of a set, with access to its claims.
func (r *reconciler) observe(set *appsv1.StatefulSet, pods []*corev1.Pod, revs revisions) *state {
	s := observe(set, pods, revs, r.rules, time.Now())
	s.claim = func(name string) (*corev1.PersistentVolumeClaim, bool) {
		return r.claims.Get(kit.Key{Namespace: set.Namespace, Name: name})
	}
	s.taken = func(pod string) bool {
		_, ok := r.pods.Get(kit.Key{Namespace: set.Namespace, Name: pod})
		return ok
	}
	s.closing = podctl.Closing(r.namespaces, set.Namespace)
	return s
}

// allow refuses a strategy whose feature gate is off. Only a restart of the process could change that.
func (r *reconciler) allow(set *appsv1.StatefulSet) error {
	if set.Spec.UpdateStrategy.Type != appsv1.RecreateStatefulSetStrategyType || r.rules.recreate {
		return nil
	}
	err := fmt.Errorf("statefulset %s uses Recreate strategy but feature gate %s is disabled", klog.KObj(set), recreate)
	r.events.refused(set, err)
	return err
}

// claim returns the pods of a set. Both labels and name decide which pods are adopted and which released: a pod whose name
// is not that of an ordinal cannot be a member.
func (r *reconciler) claim(ctx context.Context, set *appsv1.StatefulSet, selector labels.Selector, recheck func(context.Context) error) ([]*corev1.Pod, error) {
	candidates := index.PodsOf(r.pods, r.byOwner, set, setKind.Kind)
	for _, pod := range r.pods.By(r.namesakes, namesake(set.Namespace, set.Name)) {
		if selector.Matches(labels.Set(pod.Labels)) {
			candidates = append(candidates, pod)
		}
	}
	claimer := claim.Claimer[*corev1.Pod]{
		Owner: set, Kind: setKind, Selector: selector, Recheck: recheck, Patch: claim.Patches[corev1.Pod](r.client),
		Filter: func(pod *corev1.Pod) bool { _, ok := memberOf(set, pod); return ok },
	}
	pods, err := claimer.Claim(ctx, candidates)
	if err != nil {
		err = fmt.Errorf("claim pods for %s: %w", klog.KObj(set), err)
	}
	return pods, err
}
