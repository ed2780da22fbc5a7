package daemonset

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// burst is how many pods one step creates, and how many it deletes, at most. The rest follows once the cache shows these
// writes. More at once would overload image registries.
const burst = 250

// maxStrays is how many pods, beyond one for each desired node, may wait to be bound without being pinned to a node. If a
// webhook takes the pin away, no node has its pod, and without a limit another one would be created for ever.
const maxStrays = 30

// act carries out a plan; it deletes pods even if creating some failed. It returns the time after which the rest of the
// plan can be carried out, or 0.
func (r *reconciler) act(ctx context.Context, p *pass, v *view, due plan) (wait time.Duration, err error) {
	wait, err = r.create(ctx, p, v, due.create)
	return wait, errors.Join(err, r.remove(ctx, v, due.remove))
}

func (r *reconciler) create(ctx context.Context, p *pass, v *view, nodes []string) (wait time.Duration, err error) {
	if nodes, err = r.withoutUncached(ctx, p, nodes); err != nil || len(nodes) == 0 {
		return 0, err
	}
	log := klog.FromContext(ctx)
	if podctl.Closing(r.namespaces, v.set.Namespace) {
		log.V(4).Info("Nodes need pods, but the namespace is being deleted", "daemonSet", klog.KObj(v.set), "nodes", len(nodes))
		return 0, nil
	}
	if v.strays >= v.desired+maxStrays {
		log.V(2).Info("Not creating pods: too many wait to be bound that have lost the node that they were created for",
			"daemonSet", klog.KObj(v.set), "nodes", len(nodes), "waiting", v.strays)
		return 0, nil // requeued when one of them is bound or deleted
	}
	n, wait := r.allowances.Take(ctx, v.set, v.desired, len(nodes), burst, v.now)
	log.V(4).Info("Creating pods", "daemonSet", klog.KObj(v.set), "nodes", nodes[:n])
	model := v.current.newPod(v.set)
	made, err := r.control.CreateMany(ctx, v.set, n, func(i int) *corev1.Pod { return pinned(model, nodes[i]) })
	r.allowances.GiveBack(kit.KeyOf(v.set), n-made)
	return wait, err
}

func (r *reconciler) remove(ctx context.Context, v *view, all []removal) error {
	if all = all[:min(len(all), burst)]; len(all) == 0 {
		return nil
	}
	log := klog.FromContext(ctx)
	pods := make([]*corev1.Pod, 0, len(all))
	for _, d := range all {
		pods = append(pods, d.pod)
		switch d.ended {
		case corev1.PodFailed:
			r.failures.deleted(r.failureKey(v, d.node), v.now)
			log.V(2).Info("Found a failed pod; deleting it", "daemonSet", klog.KObj(v.set), "pod", klog.KObj(d.pod), "node", d.node)
			r.recorder.Eventf(v.set, corev1.EventTypeWarning, "FailedDaemonPod",
				"Found failed daemon pod %s/%s on node %s, will try to kill it", d.pod.Namespace, d.pod.Name, d.node)
		case corev1.PodSucceeded:
			log.V(2).Info("Found a pod that has ended; deleting it", "daemonSet", klog.KObj(v.set), "pod", klog.KObj(d.pod), "node", d.node)
			r.recorder.Eventf(v.set, corev1.EventTypeNormal, "SucceededDaemonPod",
				"Found succeeded daemon pod %s/%s on node %s, will try to delete it", d.pod.Namespace, d.pod.Name, d.node)
		}
	}
	return r.control.DeleteMany(ctx, v.set, pods)
}

// failureKey returns the key under which failures of a DaemonSet's pods on a node are counted.
func (r *reconciler) failureKey(v *view, node string) failureKey {
	return failureKey{set: v.set.UID, generation: v.set.Status.ObservedGeneration, node: node}
}
