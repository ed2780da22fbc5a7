package daemonset

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/history"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
)

type reconciler struct {
	sets       cache.Store[*appsv1.DaemonSet]
	pods       cache.Store[*corev1.Pod]
	nodes      cache.Store[*corev1.Node]
	namespaces cache.Store[*corev1.Namespace]
	byOwner    cache.Index[*corev1.Pod]
	orphans    cache.Index[*corev1.Pod]
	history    *history.Keeper
	control    podctl.Control
	client     *client.Client
	live       *client.Client
	recorder   record.EventRecorder

	placements  placements
	failures    failures
	changes     nodeChanges
	lostCreates lostCreates
	allowances  *podctl.Allowances
	wake        *kit.Trigger[kit.Key]
}

func newReconciler(cc kit.ControllerContext) *reconciler {
	r := &reconciler{
		byOwner: index.ByController[*corev1.Pod](), orphans: index.Orphans[*corev1.Pod](),
		sets: kit.Store(cc, bySelector()), nodes: kit.Store[corev1.Node](cc), namespaces: kit.Store[corev1.Namespace](cc),
		history: history.NewKeeper(cc, history.DaemonSets()),
		client:  cc.Client, live: cc.Live, recorder: cc.Recorder,
		placements: placements{compare: cc.Gates.Enabled(numberTolerations)},
		wake:       kit.NewTrigger[kit.Key](), allowances: podctl.NewAllowances(),
	}
	r.pods = kit.Store(cc, r.byOwner, r.orphans)
	r.control = podctl.Control{Client: cc.Client, Recorder: cc.Recorder, Lost: r.lostCreates.add}
	return r
}

// Reconcile advances one DaemonSet by one step. A DaemonSet that is being deleted is left alone, its status included: the
// garbage collector may already be deleting the pods that it counts.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	set, ok := r.sets.Get(key)
	switch {
	case !ok:
		r.placements.forget(key)
		r.lostCreates.clear(key)
		r.allowances.Forget(key)
		return kit.Done, nil
	case selectsAll(set.Spec.Selector):
		r.recorder.Event(set, corev1.EventTypeWarning, "SelectingAll",
			"This daemon set is selecting all pods. A non-empty selector is required.")
		return kit.Done, nil
	case set.DeletionTimestamp != nil:
		return kit.Done, nil
	}
	p, err := r.observe(ctx, set)
	if err != nil || p == nil {
		return kit.Done, err
	}
	wait, err := r.step(ctx, p)
	v := p.view(time.Now())
	if err := errors.Join(err, r.report(ctx, v)); err != nil {
		return v.nextAvailable(), err
	}
	return kit.Sooner(kit.After(wait), v.nextAvailable()), nil
}

func selectsAll(s *metav1.LabelSelector) bool {
	return s != nil && len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// step does what is due now, and returns the time after which there is more to do even if nothing changes, or 0.
func (r *reconciler) step(ctx context.Context, p *pass) (time.Duration, error) {
	v := p.view(time.Now())
	due := manage(v, func(node string) time.Duration { return r.failures.blocked(r.failureKey(v, node), v.now) })
	more, err := r.act(ctx, p, v, due)
	if err != nil {
		return 0, fmt.Errorf("manage the pods of %s: %w", klog.KObj(p.set), err)
	}
	if len(due.create) > 0 {
		r.refresh(p) // creating many takes a while
	}
	// roll would not see that the pods just deleted are going away.
	if len(due.remove) == 0 && p.set.Spec.UpdateStrategy.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		v = p.view(time.Now())
		next, err := roll(v)
		if err != nil {
			return 0, kit.Terminal(err)
		}
		surge, err := r.act(ctx, p, v, next)
		if err != nil {
			return 0, fmt.Errorf("update the pods of %s: %w", klog.KObj(p.set), err)
		}
		due.remove = next.remove
		due.wait(surge)
	}
	if len(due.remove) > 0 {
		r.refresh(p)
	}
	due.wait(more)
	return due.after, r.truncate(ctx, p)
}

// nextAvailable requeues the DaemonSet for when the next pod has been ready for minReadySeconds.
func (v *view) nextAvailable() kit.Result {
	seconds := v.set.Spec.MinReadySeconds
	if seconds <= 0 {
		return kit.Done
	}
	var next kit.Result
	for _, s := range v.nodes {
		for _, pod := range s.pods {
			if !podctl.Ready(pod) || v.available(pod) {
				continue
			}
			wait, known := podctl.AvailableIn(pod, seconds, v.now)
			if !known {
				// Without a transition time of its Ready condition a pod never becomes available; checking again is cheap.
				wait = time.Duration(seconds) * time.Second
			}
			next = kit.Sooner(next, kit.After(wait))
		}
	}
	return next
}
