package replicaset

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

// doomed makes every pod end 30 ms after its creation.
func doomed(end func(context.Context, *client.Client, *corev1.Pod) error) kit.InitFunc {
	return func(cc kit.ControllerContext) (bool, error) {
		store := kit.Store[corev1.Pod](cc)
		return true, kit.NewController(cc, kit.Objects(store, kit.ObjectFunc[*corev1.Pod](func(ctx context.Context, p *corev1.Pod) (kit.Result, error) {
			if p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed {
				return kit.Done, nil
			}
			time.Sleep(30 * time.Millisecond)
			return kit.Done, client.IgnoreNotFound(end(ctx, cc.Client, p))
		}))).Watch(kit.For(func(old, new *corev1.Pod) bool { return old == nil })).Workers(100).Complete()
	}
}

func fail(ctx context.Context, c *client.Client, p *corev1.Pod) error {
	next := p.DeepCopy()
	next.Status.Phase = corev1.PodFailed
	_, err := client.UpdateStatus(ctx, c, next)
	return err
}

func evict(ctx context.Context, c *client.Client, p *corev1.Pod) error {
	return client.Delete(ctx, c, p)
}

func TestPodsThatGoAtOnceAreMadeAnewAtAMeasuredPace(t *testing.T) {
	for name, setup := range map[string]func(*testing.T, *kittest.API){
		"refused by their node":   func(t *testing.T, api *kittest.API) { api.Run(t, doomed(fail)) },
		"deleted by someone else": func(t *testing.T, api *kittest.API) { api.Run(t, doomed(evict)) },
		"given other labels by a webhook": func(_ *testing.T, api *kittest.API) {
			api.React(func(r *kittest.Request) *kittest.Reaction {
				if r.Verb == "create" && r.Resource.Resource == "pods" {
					r.Object.SetLabels(map[string]string{"app": "other"})
					time.Sleep(5 * time.Millisecond)
				}
				return nil
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t, newSet("web", 10))
				setup(t, api)
				made := countCalls(api, "create", "pods")
				api.Run(t, Descriptor())
				time.Sleep(10 * time.Second)
				// Twice the desired number plus 30 at once, and then 20 a second.
				if n := made.of(""); n < 150 || n > 260 {
					t.Errorf("%d pods were made in 10 s", n)
				}
			})
		})
	}
}

func TestAfterAStormTheSetIsFilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newSet("web", 100))
		storm := api.Run(t, doomed(fail))
		api.Run(t, Descriptor())
		time.Sleep(10 * time.Second)
		storm.Stop()
		api.Pass(6 * time.Second)
		if n := get(t, api, "web").Status.Replicas; n != 100 {
			t.Errorf("%d of 100 pods", n)
		}
	})
}

func TestAChangeOfSizeWaitsForNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 400))
		for range 5 {
			scale(t, api, "web", 0)
			api.Settle()
			scale(t, api, "web", 400)
			api.Settle()
			if n := get(t, api, "web").Status.Replicas; n != 400 {
				t.Fatalf("%d of 400 pods", n)
			}
		}
	})
}

func TestAllPodsAreReplacedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newSet("web", 400))
		api.Pass(20 * time.Second)
		for _, p := range pods(t, api) {
			api.Remove(t, p)
		}
		api.Settle()
		if n := get(t, api, "web").Status.Replicas; n != 400 {
			t.Errorf("%d of 400 pods", n)
		}
	})
}
