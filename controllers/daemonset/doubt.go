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

// doubts are the DaemonSets of which the server may have stored a pod without an answer. The kit holds them back for a
// while, by when the cache shows such a pod; but a watch may be later than that.
type doubts struct {
	mu   sync.Mutex // guards sets
	sets map[kit.Key]bool
}

func (d *doubts) about(set kit.Key) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.sets[set]
}

func (d *doubts) raise(owner client.Object) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sets == nil {
		d.sets = map[kit.Key]bool{}
	}
	d.sets[kit.KeyOf(owner)] = true
}

func (d *doubts) clear(set kit.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.sets, set)
}

// certain leaves out the nodes that have a pod of which the cache knows nothing yet. It asks the server only where there
// is doubt, which ends when the two agree.
func (r *reconciler) certain(ctx context.Context, p *pass, nodes []string) ([]string, error) {
	if len(nodes) == 0 || !r.doubts.about(kit.KeyOf(p.set)) {
		return nodes, nil
	}
	stored, err := client.List[corev1.Pod](ctx, r.live, client.InNamespace(p.set.Namespace), client.Labels(metav1.FormatLabelSelector(p.set.Spec.Selector)))
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s, as an answer was lost: %w", klog.KObj(p.set), err)
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
		r.doubts.clear(kit.KeyOf(p.set))
		return nodes, nil
	}
	klog.FromContext(ctx).V(2).Info("Nodes have pods that the cache does not show yet", "daemonSet", klog.KObj(p.set), "nodes", len(taken))
	return slices.DeleteFunc(slices.Clone(nodes), func(node string) bool { return taken[node] }), nil
}
