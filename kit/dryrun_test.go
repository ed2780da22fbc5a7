package kit_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// rehearsal is a dry run of a controller that gives every ConfigMap a Secret of the same name.
type rehearsal struct {
	api    *kittest.API
	dry    *kit.DryRun
	looks  int
	afters error // of what it does after the write
}

func rehearse(t *testing.T) *rehearsal {
	r := &rehearsal{api: kittest.New(t), dry: kit.NewDryRun()}
	cc := r.api.Context("copier")
	cc.Client = cc.Client.DryRun()
	cc.Live, cc.DryRun = cc.Client.Live(), r.dry
	r.api.RunIn(t, cc, func(cc kit.ControllerContext) (bool, error) {
		maps, secrets := kit.Store[corev1.ConfigMap](cc), kit.Store[corev1.Secret](cc)
		copier := kit.ObjectFunc[*corev1.ConfigMap](func(ctx context.Context, m *corev1.ConfigMap) (kit.Result, error) {
			r.looks++
			if _, ok := secrets.Get(kit.KeyOf(m)); ok {
				return kit.Done, nil
			}
			_, err := client.Create(ctx, cc.Client, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}})
			if err == nil {
				err = r.afters
			}
			return kit.Done, err
		})
		owner := kit.Watches(func(s *corev1.Secret) []kit.Key { return []kit.Key{kit.KeyOf(s)} })
		return true, kit.NewController(cc, kit.Objects(maps, copier)).Watch(kit.For[corev1.ConfigMap](), owner).Complete()
	})
	r.api.Settle()
	return r
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "default", Name: name} }

func TestADryRunListsWhatItWouldWriteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rehearse(t)
		r.afters = fmt.Errorf("get secret: not found") // as it is when a write has not been stored
		r.api.Create(t, &corev1.ConfigMap{ObjectMeta: named("a")})
		r.api.Pass(time.Hour)
		open, settled, dropped := r.dry.Writes()
		if len(open) != 1 || settled != 0 || dropped != 0 {
			t.Fatalf("open %+v, settled %d, dropped %d", open, settled, dropped)
		}
		w := open[0]
		if w.Loop != "copier" || w.Key != "default/a" || w.Verb != "create" || w.Resource != "secrets" || w.Object != "default/a" || w.Count != r.looks || !w.Last.After(w.First) {
			t.Errorf("write %+v after %d looks", w, r.looks)
		}
		if r.looks < 3 || r.looks > 15 {
			t.Errorf("looked %d times in an hour at what nothing changes", r.looks)
		}
		if r.api.Get(t, &corev1.Secret{ObjectMeta: named("a")}) {
			t.Error("the write was stored")
		}
	})
}

func TestWhatAnotherHasDoneLeavesTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rehearse(t)
		r.api.Create(t, &corev1.ConfigMap{ObjectMeta: named("late")})
		r.api.Pass(time.Minute)
		if open, _, _ := r.dry.Writes(); len(open) != 1 {
			t.Fatalf("open %+v", open)
		}
		r.api.Create(t, &corev1.Secret{ObjectMeta: named("late")})
		r.api.Pass(10 * time.Second)
		if open, settled, _ := r.dry.Writes(); len(open) != 0 || settled != 1 {
			t.Errorf("open %+v, settled %d", open, settled)
		}
		// Whoever does the work in earnest is given the time to do it.
		r.api.Create(t, &corev1.ConfigMap{ObjectMeta: named("quick")})
		r.api.Pass(time.Second)
		r.api.Create(t, &corev1.Secret{ObjectMeta: named("quick")})
		r.api.Pass(time.Minute)
		if open, settled, _ := r.dry.Writes(); len(open) != 0 || settled != 1 {
			t.Errorf("open %+v, settled %d: it did not wait for the other", open, settled)
		}
	})
}

func TestTheListOfADryRunIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rehearse(t)
		const many = 700
		for i := range many {
			r.api.Create(t, &corev1.ConfigMap{ObjectMeta: named(fmt.Sprintf("m-%d", i))})
		}
		r.api.Pass(15 * time.Second)
		open, _, dropped := r.dry.Writes()
		if len(open) != 512 || dropped != many-512 {
			t.Errorf("%d open, %d dropped", len(open), dropped)
		}
	})
}
