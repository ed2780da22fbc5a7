package podctl

import (
	"context"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"orrery/kit"
	"orrery/kit/client"
)

// deletesAtOnce bounds the concurrent deletions of one owner: more would only wait in the server's queues.
const deletesAtOnce = 64

// CreateMany creates n pods for their owner in batches that double, and stops after the first batch with a failure: what
// makes one creation fail, such as a quota, makes all of them fail. pod returns what to send for 0 to n-1. Each has to be a
// Pod of its own, because the encoder sets its kind for a moment. A namespace that is being deleted ends the work without
// an error, as no retry could help. CreateMany returns the number of pods created, and the server's first error unchanged.
func (c Control) CreateMany(ctx context.Context, owner client.Object, n int, pod func(i int) *corev1.Pod) (made int, err error) {
	var going atomic.Bool
	var count atomic.Int32
	done, err := kit.SlowStart(ctx, n, func(ctx context.Context, i int) error {
		if going.Load() {
			return nil
		}
		_, err := c.Create(ctx, owner, pod(i))
		if client.IsNamespaceTerminating(err) {
			going.Store(true)
			return nil
		}
		if err == nil {
			count.Add(1)
		}
		return err
	})
	if err != nil {
		klog.FromContext(ctx).V(2).Info("Slow-start failure: the rest of the pods has to wait",
			"object", klog.KObj(owner), "created", done, "skipped", n-done)
	}
	return int(count.Load()), err
}

// DeleteMany deletes pods of an owner. One that is gone already counts as deleted. The error is the server's first.
func (c Control) DeleteMany(ctx context.Context, owner client.Object, pods []*corev1.Pod) error {
	return kit.BatchFirst(ctx, len(pods), deletesAtOnce, func(ctx context.Context, i int) error {
		return client.IgnoreNotFound(c.Delete(ctx, owner, pods[i]))
	})
}
