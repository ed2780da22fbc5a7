package replicas

import (
	"context"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"orrery/controllers/internal/podctl"
	"orrery/kit"
)

const (
	// burst is how many pods one reconcile creates or deletes at most; the rest follows once the cache shows these.
	burst = 500
	// deletesAtOnce bounds the deletions under way at the same time: more would only wait in the server's queues.
	deletesAtOnce = 64
)

// scale creates or deletes pods so that the object comes nearer to its number of replicas. The error is the first of
// the server's, as it is: it becomes the message of a condition.
func (r *reconciler[T, P]) scale(ctx context.Context, set P, spec Spec, active []*corev1.Pod) error {
	log := klog.FromContext(ctx)
	switch have, need := len(active), int(spec.Replicas); {
	case have < need && r.going(set.GetNamespace()):
		log.V(4).Info("Too few replicas, but the namespace is being deleted", "object", klog.KObj(set), "need", need)
	case have < need:
		n := min(need-have, burst)
		log.V(2).Info("Too few replicas", "object", klog.KObj(set), "need", need, "creating", n)
		return r.create(ctx, set, spec.Template, n)
	case have > need:
		n := min(have-need, burst)
		log.V(2).Info("Too many replicas", "object", klog.KObj(set), "need", need, "deleting", n)
		return r.delete(ctx, set, r.firstToGo(set, active, n, time.Now()))
	}
	return nil
}

// going reports whether a namespace is being deleted. Nothing can be created in it any more: asking all the same, once
// for each pod that goes, would only slow its deletion down.
func (r *reconciler[T, P]) going(namespace string) bool {
	ns, ok := r.namespaces.Get(kit.Key{Name: namespace})
	return ok && ns.DeletionTimestamp != nil
}

// create creates pods in batches that double, and stops after the first batch with a refusal: what refuses one pod, as
// a quota does, refuses them all. A namespace that is going away ends it without an error, as no retry could help.
func (r *reconciler[T, P]) create(ctx context.Context, set P, template *corev1.PodTemplateSpec, n int) error {
	model := podctl.Share(template, set, *metav1.NewControllerRef(set, r.kind.GVK))
	var going atomic.Bool
	done, err := kit.SlowStart(ctx, n, func(ctx context.Context, _ int) error {
		if going.Load() {
			return nil
		}
		pod := *model // the encoder marks what it sends with the kind for a moment, so each request needs its own
		_, err := r.control.Create(ctx, set, &pod)
		if podctl.NamespaceGoing(err) {
			going.Store(true)
			return nil
		}
		return err
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Slow-start failure: the rest of the pods has to wait",
			"object", klog.KObj(set), "created", done, "skipped", n-done)
	}
	return err
}

// delete deletes pods. One that is gone already is as good as deleted.
func (r *reconciler[T, P]) delete(ctx context.Context, set P, pods []*corev1.Pod) error {
	failed := make([]error, len(pods))
	err := kit.Batch(ctx, len(pods), deletesAtOnce, func(ctx context.Context, i int) error {
		if err := r.control.Delete(ctx, set, pods[i]); !apierrors.IsNotFound(err) {
			failed[i] = err
		}
		return nil
	})
	for _, e := range failed {
		if e != nil {
			return e
		}
	}
	return err
}
