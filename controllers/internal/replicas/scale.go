package replicas

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

// burst bounds how many pods one reconcile creates or deletes; the rest follows once the cache shows these.
const burst = 500

// scale creates or deletes pods to bring the object closer to its number of replicas. The error is the server's first,
// unchanged, as it becomes the message of a condition. rest asks for a reconcile if some creations were delayed.
func (r *reconciler[T, P]) scale(ctx context.Context, set P, spec Spec, active []*corev1.Pod) (rest kit.Result, err error) {
	log := klog.FromContext(ctx)
	switch have, need := len(active), int(spec.Replicas); {
	case have < need && podctl.Closing(r.namespaces, set.GetNamespace()):
		log.V(4).Info("Too few replicas, but the namespace is being deleted", "object", klog.KObj(set), "need", need)
	case have < need:
		n, wait := r.allowances.Take(ctx, set, need, need-have, burst, time.Now())
		log.V(2).Info("Too few replicas", "object", klog.KObj(set), "need", need, "creating", n)
		return kit.After(wait), r.create(ctx, set, spec.Template, n)
	case have > need:
		n := min(have-need, burst)
		log.V(2).Info("Too many replicas", "object", klog.KObj(set), "need", need, "deleting", n)
		return kit.Done, r.control.DeleteMany(ctx, set, r.firstToGo(set, active, n, time.Now()))
	}
	return kit.Done, nil
}

// create creates pods from the template.
func (r *reconciler[T, P]) create(ctx context.Context, set P, template *corev1.PodTemplateSpec, n int) error {
	model := podctl.Share(template, set, *metav1.NewControllerRef(set, r.kind.GVK))
	made, err := r.control.CreateMany(ctx, set, n, func(int) *corev1.Pod {
		pod := *model
		return &pod
	})
	r.allowances.GiveBack(kit.KeyOf(set), n-made)
	return err
}
