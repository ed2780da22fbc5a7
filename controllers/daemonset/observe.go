package daemonset

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/claim"
	"orrery/controllers/internal/index"
	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// pass is the state of one reconcile.
type pass struct {
	set      *appsv1.DaemonSet // from the cache: read-only
	selector labels.Selector
	where    *placement
	nodes    []*corev1.Node
	pods     []*corev1.Pod                // claimed
	old      []*appsv1.ControllerRevision // of earlier templates, sorted
	current  templateID
	last     *view // of the current pods; nil if it has to be made
}

// observe reads the state of a DaemonSet, adopting and releasing pods and revisions. It returns nil if it changed something
// that requeues the DaemonSet, and the reconcile has to start over.
func (r *reconciler) observe(ctx context.Context, set *appsv1.DaemonSet) (*pass, error) {
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return nil, kit.Terminal(fmt.Errorf("read selector of %s: %w", klog.KObj(set), err))
	}
	p := &pass{set: set, selector: selector, where: r.placements.of(set), nodes: r.nodes.List("")}
	recheck := claim.Live(r.live, set)
	revisions, err := r.history.Claim(ctx, set, selector, recheck)
	if err != nil {
		return nil, err
	}
	if p.pods, err = r.claim(ctx, set, selector, recheck); err != nil {
		return nil, err
	}
	if ok, err := r.identify(ctx, p, revisions); err != nil || !ok {
		return nil, err
	}
	return p, nil
}

// claim adopts and releases pods, and returns those of the DaemonSet, including terminating ones.
func (r *reconciler) claim(ctx context.Context, set *appsv1.DaemonSet, selector labels.Selector, recheck func(context.Context) error) ([]*corev1.Pod, error) {
	candidates := index.PodsOf(r.pods, r.byOwner, set, kind.Kind)
	for _, pod := range r.pods.By(r.orphans, set.Namespace) {
		if selector.Matches(labels.Set(pod.Labels)) {
			candidates = append(candidates, pod)
		}
	}
	claimer := claim.Claimer[*corev1.Pod]{
		Owner: set, Kind: kind, Selector: selector, Recheck: recheck, Patch: claim.Patches[corev1.Pod](r.client),
	}
	pods, err := claimer.Claim(ctx, candidates)
	if err != nil {
		return nil, fmt.Errorf("claim pods for %s: %w", klog.KObj(set), err)
	}
	return pods, nil
}

// view returns the view of the pods as last read, making it if necessary.
func (p *pass) view(now time.Time) *view {
	if p.last == nil {
		p.last = newView(p.set, p.where, p.nodes, p.pods, p.current, now)
	}
	return p.last
}

// refresh reads the pods again. The cache may not show yet that pods were adopted or released in this pass.
func (r *reconciler) refresh(p *pass) {
	pods := slices.DeleteFunc(index.PodsOf(r.pods, r.byOwner, p.set, kind.Kind), func(pod *corev1.Pod) bool {
		return !p.selector.Matches(labels.Set(pod.Labels))
	})
	for _, pod := range p.pods {
		if podctl.ControllerOf(pod) == "" {
			if now, ok := r.pods.Get(kit.KeyOf(pod)); ok && now.UID == pod.UID && podctl.ControllerOf(now) == "" {
				pods = append(pods, now)
			}
		}
	}
	p.pods, p.last = pods, nil
}
