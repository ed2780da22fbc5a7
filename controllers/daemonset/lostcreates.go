package daemonset

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
	"orrery/kit/client"
)

// lostCreates remembers the DaemonSets for which the response to a pod create was lost, so that the pod may exist. The kit
// delays the next reconcile for a while, by which time the cache usually shows such a pod; but the watch may be slower.
type lostCreates struct {
	mu   sync.Mutex // guards sets
	sets map[kit.Key]bool
}

func (l *lostCreates) has(set kit.Key) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sets[set]
}

func (l *lostCreates) add(owner client.Object) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.sets == nil {
		l.sets = map[kit.Key]bool{}
	}
	l.sets[kit.KeyOf(owner)] = true
}

func (l *lostCreates) clear(set kit.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.sets, set)
}

// withoutUncached returns the nodes without those that have a pod which the cache does not show yet. It asks the server
// only after a lost create, and until the server has no pod that the cache lacks.
func (r *reconciler) withoutUncached(ctx context.Context, p *pass, nodes []string) ([]string, error) {
	if len(nodes) == 0 || !r.lostCreates.has(kit.KeyOf(p.set)) {
		return nodes, nil
	}
	stored, err := client.List[corev1.Pod](ctx, r.live, client.InNamespace(p.set.Namespace), client.Labels(metav1.FormatLabelSelector(p.set.Spec.Selector)))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s after a lost create: %w", klog.KObj(p.set), err)
	}
	known := make(map[types.UID]bool, len(p.pods))
	for _, pod := range p.pods {
		known[pod.UID] = true
	}
	taken := map[string]bool{}
	for _, pod := range stored {
		if !known[pod.UID] && podctl.ControllerOf(pod) == p.set.UID {
			taken[nodeOf(pod)] = true
		}
	}
	if len(taken) == 0 {
		r.lostCreates.clear(kit.KeyOf(p.set))
		return nodes, nil
	}
	klog.FromContext(ctx).V(2).Info("Nodes have pods that the cache does not show yet", "daemonSet", klog.KObj(p.set), "nodes", len(taken))
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return taken[node] }), nil
}
