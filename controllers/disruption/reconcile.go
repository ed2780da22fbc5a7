package disruption

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/roster"
	"orrery/kit"
	"orrery/kit/client"
)

type reconciler struct {
	client   *client.Client
	recorder record.EventRecorder

	budget  func(kit.Key) (*policyv1.PodDisruptionBudget, bool)
	roster  *roster.Roster
	owners  owners
	scales  *scales
	fetch   func(owner)
	recheck func(budget kit.Key, in time.Duration)
	reports reports
}

// Reconcile brings the status of one budget up to date.
func (r *reconciler) Reconcile(ctx context.Context, key kit.Key) (kit.Result, error) {
	b, ok := r.budget(key)
	if !ok {
		r.roster.Forget(key)
		r.reports.forget(key)
		return kit.Done, nil
	}
	pods, err := r.podsOf(b)
	if err != nil {
		return kit.Done, r.fail(ctx, b, failure{"NoPods", "Failed to get pods: ", err, false})
	}
	now := time.Now()
	want := r.expect(b, pods, now)
	switch {
	case want.err != nil:
		f := failure{"CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: ", want.err, want.asked}
		return kit.After(want.retryAfter), r.fail(ctx, b, f)
	case !want.known:
		return kit.Done, nil // requeued when the scale has been read
	}
	p := makePlan(b, pods, want, now)
	if want.outdated && p.status.DisruptionsAllowed >= b.Status.DisruptionsAllowed {
		return kit.Done, nil // requeued when the scale has been read
	}
	if err := r.apply(ctx, b, p); err != nil {
		return kit.Done, err
	}
	if p.recheck > 0 {
		r.recheck(key, p.recheck)
	}
	return kit.After(want.retryAfter), nil
}

// podsOf returns the pods that a budget selects, in no order.
func (r *reconciler) podsOf(b *policyv1.PodDisruptionBudget) ([]*corev1.Pod, error) {
	sel, ok, err := selection(b)
	if !ok {
		r.roster.Forget(kit.KeyOf(b))
		return nil, err
	}
	return r.roster.Select(sel), nil
}

// apply writes the status if it has changed, and publishes events once it is written.
func (r *reconciler) apply(ctx context.Context, b *policyv1.PodDisruptionBudget, p plan) error {
	if p.changed {
		if err := r.write(ctx, b, p.status); err != nil {
			return err
		}
		klog.FromContext(ctx).V(4).Info("Updated the status of a budget", "budget", klog.KObj(b),
			"allowed", p.status.DisruptionsAllowed, "healthy", p.status.CurrentHealthy, "desired", p.status.DesiredHealthy, "expected", p.status.ExpectedPods)
	}
	isNew := r.reports.changed(kit.KeyOf(b), report{b.UID, p.pods == 0, len(p.unmanaged) > 0})
	if p.changed || isNew {
		r.publish(ctx, b, p)
	}
	return nil
}

// publish publishes events about the pods of a budget.
func (r *reconciler) publish(ctx context.Context, b *policyv1.PodDisruptionBudget, p plan) {
	for _, pod := range p.survivors {
		klog.FromContext(ctx).V(1).Info("An evicted pod was not deleted; counting it as healthy again", "pod", klog.KObj(pod), "budget", klog.KObj(b))
		r.recorder.Eventf(pod, corev1.EventTypeWarning, "NotDeleted", "Pod was expected by PDB %s to be deleted but it wasn't", klog.KObj(b))
	}
	if p.pods == 0 {
		r.recorder.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if len(p.unmanaged) > 0 {
		klog.FromContext(ctx).V(4).Info("Pods without a controller are not among the expected pods", "budget", klog.KObj(b), "pods", p.unmanaged)
		r.recorder.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods", unmanagedText, b.Spec.Selector)
	}
}

// unmanagedText is the message of the event about pods without a controller.
const unmanagedText = "Pods selected by this PodDisruptionBudget (selector: %v) were found to be unmanaged. As a result, " +
	"the status of the PDB cannot be calculated correctly, which may result in undefined behavior. " +
	"To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."

// failure is why a budget's numbers cannot be computed.
type failure struct {
	reason, text string // of the event
	err          error
	isNew        bool // publish the event even if the status shows the failure already
}

// fail allows no disruption until the numbers can be computed again.
func (r *reconciler) fail(ctx context.Context, b *policyv1.PodDisruptionBudget, f failure) error {
	status, changed := failedStatus(b, f.err, time.Now())
	if changed {
		if err := r.write(ctx, b, status); err != nil {
			return err
		}
		klog.FromContext(ctx).Info("Allowing no disruption: the numbers of a budget cannot be computed", "budget", klog.KObj(b), "reason", f.err)
	}
	if changed || f.isNew {
		r.recorder.Event(b, corev1.EventTypeWarning, f.reason, f.text+f.err.Error())
	}
	return nil
}

// write replaces the status of the budget, bound to the version that was read: it conflicts with an eviction in between.
func (r *reconciler) write(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus) error {
	next := &policyv1.PodDisruptionBudget{ObjectMeta: b.ObjectMeta, Status: status}
	if _, err := client.UpdateStatus(ctx, r.client, next, client.Brief); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("update status of budget %s: %w", klog.KObj(b), err)
	}
	return nil
}

// requeueDue hands budgets whose delay is over to the main loop.
func requeueDue(again func(kit.Key)) kit.Reconciler[kit.Key] {
	return kit.Func[kit.Key](func(_ context.Context, budget kit.Key) (kit.Result, error) {
		again(budget)
		return kit.Done, nil
	})
}
