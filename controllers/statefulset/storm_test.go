package statefulset

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// refusing has every pod fail 30 ms after it was made, as one that its node refuses.
func refusing(cc kit.ControllerContext) (bool, error) {
	store := kit.Store[corev1.Pod](cc)
	return true, kit.NewController(cc, kit.Objects(store, kit.ObjectFunc[*corev1.Pod](func(ctx context.Context, p *corev1.Pod) (kit.Result, error) {
		if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
			return kit.Done, nil
		}
		time.Sleep(30 * time.Millisecond)
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodFailed
		_, err := client.UpdateStatus(ctx, cc.Client, next)
		return kit.Done, client.IgnoreNotFound(err)
	}))).Watch(kit.For[corev1.Pod]()).Workers(100).Complete()
}

func TestPodsThatFailAtOnceAreMadeAnewAtAMeasuredPace(t *testing.T) {
	for name, opts := range map[string][]setOption{"parallel": {parallel}, "ordered": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet("web", 10, opts...)
				set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
				api := kittest.New(t, set)
				api.Run(t, refusing)
				api.Run(t, Descriptor())
				time.Sleep(10 * time.Second)
				made := 0
				for _, w := range api.Writes() {
					if w == "create v1/pods default/web-0" || len(w) > 24 && w[:24] == "create v1/pods default/w" {
						made++
					}
				}
				// Twice as many as are asked for, 30 more, and 20 a second.
				if made < 100 || made > 260 {
					t.Errorf("%d pods were made in 10 s", made)
				}
			})
		})
	}
}
