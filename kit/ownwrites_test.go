package kit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

// keeper keeps as many pods as a config map asks for. It trusts its cache and nothing else, as controllers on this kit
// may: without the barrier for own writes it makes too many.
type keeper struct {
	client *client.Client
	pods   cache.Store[*corev1.Pod]
	maps   cache.Store[*corev1.ConfigMap]
	skips  calls[string] // of resources whose cache lagged
}

func (r *keeper) Reconcile(ctx context.Context, cm *corev1.ConfigMap) (kit.Result, error) {
	want := 0
	if _, err := fmt.Sscan(cm.Data["pods"], &want); err != nil {
		return kit.Done, kit.Terminal(err)
	}
	var have []*corev1.Pod
	for _, p := range r.pods.List(cm.Namespace) {
		if p.DeletionTimestamp == nil {
			have = append(have, p)
		}
	}
	if len(have) < want {
		_, err := kit.SlowStart(ctx, want-len(have), func(ctx context.Context, _ int) error {
			_, err := client.Create(ctx, r.client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: cm.Name + "-", Namespace: cm.Namespace}})
			return err
		})
		return kit.Done, err
	}
	for _, p := range have[want:] {
		if err := client.Delete(ctx, r.client, p, client.IfUID(p.UID)); err != nil {
			return kit.Done, err
		}
	}
	return kit.Done, nil
}

func startKeeper(t *testing.T, api *kittest.API) (*keeper, *kittest.Running) {
	t.Helper()
	r := &keeper{}
	return r, api.Run(t, func(cc kit.ControllerContext) (bool, error) {
		r.client, r.pods, r.maps = cc.Client, kit.Store[corev1.Pod](cc), kit.Store[corev1.ConfigMap](cc)
		anyPod := func(p *corev1.Pod) []kit.Key { return []kit.Key{{Namespace: p.Namespace, Name: "keep"}} }
		return true, kit.NewController(cc, kit.Objects(r.maps, r)).
			Watch(kit.For[corev1.ConfigMap](), kit.Watches(anyPod)).
			OnSkip(func(stale schema.GroupResource) { r.skips.add(stale.String()) }).Complete()
	})
}

func wanting(n int) *corev1.ConfigMap {
	cm := settings("keep")
	cm.Data = map[string]string{"pods": fmt.Sprint(n)}
	return cm
}

func podCount(t *testing.T, api *kittest.API) int {
	t.Helper()
	return len(kittest.List[corev1.Pod](t, api, ""))
}

func countWrites(api *kittest.API, prefix string) (n int) {
	for _, w := range api.Writes() {
		if strings.HasPrefix(w, prefix) {
			n++
		}
	}
	return n
}

func TestALaggingCacheCausesNoSecondWrite(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cm := wanting(0)
		api := kittest.New(t, cm)
		r, _ := startKeeper(t, api)
		api.Settle()
		api.DelayWatch(podKind, 5*time.Second)
		for i, n := range []int{20, 3, 7, 0, 5} {
			cm.Data["pods"] = fmt.Sprint(n)
			api.Update(t, cm)
			api.Pass(time.Second)
			cm.Labels = map[string]string{"poke": fmt.Sprint(i)} // a reason to reconcile while the cache lags
			api.Update(t, cm)
			api.Pass(time.Minute)
			if got := podCount(t, api); got != n {
				t.Fatalf("%d pods, want %d", got, n)
			}
		}
		if made, deleted := countWrites(api, "create"), countWrites(api, "delete"); made != 20+4+5 || deleted != 17+7 {
			t.Errorf("%d creates and %d deletes, want 29 and 24", made, deleted)
		}
		if !slices.Contains(r.skips.keys(), "pods") {
			t.Error("nothing was put off")
		}
	})
}

func TestTheKeyGoesOnAsSoonAsTheCacheHasCaughtUp(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cm := wanting(1)
		api := kittest.New(t, cm)
		api.DelayWatch(podKind, 300*time.Millisecond)
		startKeeper(t, api)
		for podCount(t, api) < 1 {
			api.Pass(time.Millisecond)
		}
		start := time.Now()
		cm.Data["pods"] = "2"
		api.Update(t, cm)
		for podCount(t, api) < 2 {
			api.Pass(time.Millisecond)
		}
		if took := time.Since(start); took < 250*time.Millisecond || took > 310*time.Millisecond {
			t.Errorf("the second pod came after %s, want about 300ms: not before the cache shows the first, and at once then", took)
		}
	})
}

func TestAWriteOfUnknownOutcomeIsWaitedForAndThenMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault kittest.Reaction
		late  time.Duration // by which the watch shows things
	}{
		{"stored", kittest.Reaction{Drop: true}, time.Second},
		{"not stored", kittest.Reaction{Err: errors.New("connection reset by peer")}, time.Second},
		{"timed out", *kittest.Refuse(504, "timed out"), time.Second},
		{"stored, and shown much later", kittest.Reaction{Drop: true}, 40 * time.Second},
		{"not stored, and the watch is late", kittest.Reaction{Err: errors.New("connection reset by peer")}, 40 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				api := kittest.New(t, wanting(3))
				faults := 1
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Verb == "create" && r.Resource.Resource == "pods" && faults > 0 {
						faults--
						return &c.fault
					}
					return nil
				})
				api.DelayWatch(podKind, c.late)
				startKeeper(t, api)
				api.Pass(10 * c.late)
				if got := podCount(t, api); got != 3 {
					t.Errorf("%d pods, want 3", got)
				}
				if n := countWrites(api, "delete"); n > 0 {
					t.Errorf("%d pods were made that had to be deleted again", n)
				}
			})
		})
	}
}

func TestADeadWatchHoldsAKeyForALimitedTime(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		cm := wanting(0)
		api := kittest.New(t, cm)
		r, _ := startKeeper(t, api)
		api.Settle()
		api.FreezeWatch(podKind, true)
		for _, n := range []string{"1", "2"} {
			cm.Data["pods"] = n
			api.Update(t, cm)
			api.Pass(time.Second)
		}
		api.Pass(4 * time.Minute)
		if got := podCount(t, api); got != 1 {
			t.Errorf("%d pods after 4 minutes of silence, want 1: the second change has to wait", got)
		}
		if n := len(r.skips.keys()); n < 4*60 {
			t.Errorf("%d skips, want one each second at least", n)
		}
		api.Pass(2 * time.Minute)
		if got := podCount(t, api); got <= 1 {
			t.Errorf("%d pods after 6 minutes of silence: the key is stuck", got)
		}
		api.FreezeWatch(podKind, false)
		api.Pass(time.Minute)
		if got := podCount(t, api); got != 2 {
			t.Errorf("%d pods in the end, want 2", got)
		}
	})
}

func TestOwnUpdatesAreSeenBeforeTheNextReconcile(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		maps := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		api := kittest.New(t, settings("a"))
		trigger := kit.NewTrigger[kit.Key]()
		conflicts := 0
		r := api.Run(t, func(cc kit.ControllerContext) (bool, error) {
			store := kit.Store[corev1.ConfigMap](cc)
			return true, kit.NewController(cc, kit.Func[kit.Key](func(ctx context.Context, key kit.Key) (kit.Result, error) {
				cm, _ := store.Get(key)
				next := cm.DeepCopy()
				next.Data = map[string]string{"n": cm.Data["n"] + "x"}
				_, err := client.Update(ctx, cc.Client, next)
				if err != nil {
					conflicts++
				}
				return kit.Done, err
			})).Watch(trigger.Source()).Complete()
		})
		api.DelayWatch(maps, 2*time.Second)
		for range 5 {
			trigger.Add(kit.Key{Namespace: "default", Name: "a"})
			api.Pass(500 * time.Millisecond)
		}
		api.Pass(time.Minute)
		got := settings("a")
		api.Get(t, got)
		if conflicts != 0 || len(got.Data["n"]) < 2 {
			t.Errorf("%d conflicts, %d updates", conflicts, len(got.Data["n"]))
		}
		if n := r.Controllers[0].State(time.Now()).Totals[kit.OutcomeDone]; int(n) != len(got.Data["n"]) {
			t.Errorf("%d reconciles and %d updates", n, len(got.Data["n"]))
		}
	})
}

func TestACreateThatIsDeletedAtOnceIsSeenGone(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		api := kittest.New(t)
		api.DelayWatch(podKind, 3*time.Second)
		trigger := kit.NewTrigger[string]()
		var seen []int
		api.Run(t, func(cc kit.ControllerContext) (bool, error) {
			pods := kit.Store[corev1.Pod](cc)
			return true, kit.NewController(cc, kit.Func[string](func(ctx context.Context, _ string) (kit.Result, error) {
				seen = append(seen, pods.Len())
				if len(seen) > 1 {
					return kit.Done, nil
				}
				p, err := client.Create(ctx, cc.Client, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default"}})
				if err != nil {
					return kit.Done, err
				}
				return kit.Done, client.Delete(ctx, cc.Client, p)
			})).Watch(trigger.Source()).Complete()
		})
		trigger.Add("x")
		api.Pass(time.Second)
		trigger.Add("x")
		api.Pass(time.Minute)
		if len(seen) != 2 || seen[1] != 0 {
			t.Errorf("pods seen by each reconcile: %v, want [0 0]", seen)
		}
	})
}

// A refusal because the object is gone tells as much as a write: the cache that still shows it is behind.
func TestAnObjectThatTheServerHasNotIsWaitedOut(t *testing.T) {
	for name, write := range map[string]func(context.Context, *client.Client, *corev1.ConfigMap) error{
		"patch": func(ctx context.Context, c *client.Client, cm *corev1.ConfigMap) error {
			_, err := client.PatchObject(ctx, c, cm, client.MergePatch([]byte(`{"data":{"a":"b"}}`)))
			return err
		},
		"update": func(ctx context.Context, c *client.Client, cm *corev1.ConfigMap) error {
			_, err := client.Update(ctx, c, cm)
			return err
		},
		"delete": func(ctx context.Context, c *client.Client, cm *corev1.ConfigMap) error {
			return client.Delete(ctx, c, cm, client.IfUID(cm.UID))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				cm := settings("a")
				api := kittest.New(t, cm)
				trigger := kit.NewTrigger[kit.Key]()
				var shown calls[bool]
				api.Run(t, func(cc kit.ControllerContext) (bool, error) {
					store := kit.Store[corev1.ConfigMap](cc)
					return true, kit.NewController(cc, kit.Func[kit.Key](func(ctx context.Context, key kit.Key) (kit.Result, error) {
						cached, ok := store.Get(key)
						shown.add(ok)
						if !ok {
							return kit.Done, nil
						}
						return kit.Done, client.IgnoreNotFound(write(ctx, cc.Client, cached))
					})).Watch(trigger.Source()).Complete()
				})
				api.Settle()
				api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("ConfigMap"), true)
				api.Remove(t, cm)
				for range 3 {
					trigger.Add(kit.KeyOf(cm))
					api.Pass(2 * time.Second)
				}
				if got := shown.keys(); !slices.Equal(got, []bool{true}) {
					t.Errorf("with the old cache the object was there %v, want one look", got)
				}
				api.FreezeWatch(corev1.SchemeGroupVersion.WithKind("ConfigMap"), false)
				api.Pass(2 * time.Second)
				if got := shown.keys(); !slices.Equal(got, []bool{true, false}) {
					t.Errorf("then it was there %v, want one more look", got)
				}
			})
		})
	}
}
