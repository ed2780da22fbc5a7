package garbagecollector

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/controllers/garbagecollector/graph"
	"orrery/kit/client"
	"orrery/kit/kittest"
)

// model says what has to be there in the end. An object lives while it has no owner references or one to an owner that
// lives. Orphaning takes the references to the owner away; a deletion in any other way leaves them.
type model struct {
	owners map[string][]string // of the objects that have not been deleted by the test
}

func (m *model) delete(name string, orphan bool) {
	delete(m.owners, name)
	if !orphan {
		return
	}
	for _, n := range slices.Collect(maps.Keys(m.owners)) {
		m.owners[n] = slices.DeleteFunc(slices.Clone(m.owners[n]), func(o string) bool { return o == name })
	}
}

// collect removes what has owners and none that lives, and the references of the others to owners that do not.
func (m *model) collect() {
	for changed := true; changed; {
		changed = false
		for _, n := range slices.Collect(maps.Keys(m.owners)) {
			live := slices.DeleteFunc(slices.Clone(m.owners[n]), func(o string) bool { _, ok := m.owners[o]; return !ok })
			switch {
			case len(live) == 0 && len(m.owners[n]) > 0:
				delete(m.owners, n)
				changed = true
			case len(live) < len(m.owners[n]):
				m.owners[n] = live
			}
		}
	}
}

func (m *model) text() []string {
	var out []string
	for n, owners := range m.owners {
		slices.Sort(owners)
		out = append(out, n+" of "+strings.Join(owners, ","))
	}
	slices.Sort(out)
	return out
}

// world is a random set of objects that own each other.
type world struct {
	*lab
	r       *rand.Rand
	model   model
	objects []client.Object // in order of creation; owners come first
}

func (w *world) grow(n int) {
	for range n {
		name := fmt.Sprintf("o%d", len(w.objects))
		var refs []metav1.OwnerReference
		w.model.owners[name] = nil
		for range w.r.IntN(4) {
			if len(w.objects) == 0 {
				break
			}
			owner := w.objects[w.r.IntN(len(w.objects))]
			if _, lives := w.model.owners[owner.GetName()]; !lives || slices.Contains(w.model.owners[name], owner.GetName()) {
				continue
			}
			ref := by(owner)
			if w.r.IntN(2) == 0 {
				ref = blocking(ref)
			}
			refs = append(refs, ref)
			w.model.owners[name] = append(w.model.owners[name], owner.GetName())
		}
		var o client.Object = configMap(name, refs...)
		switch w.r.IntN(3) {
		case 0:
			o = pod(name, refs...)
		case 1:
			o = widget(name, refs...)
		}
		w.add(o)
		w.objects = append(w.objects, o)
	}
}

// remove deletes a random object that has no owner, as users do, in a random way.
func (w *world) remove() {
	policies := []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan}
	for range 20 {
		o := w.objects[w.r.IntN(len(w.objects))]
		owners, lives := w.model.owners[o.GetName()]
		if !lives || len(owners) > 0 || !w.exists(o) {
			continue
		}
		policy := policies[w.r.IntN(len(policies))]
		orphan := policy == metav1.DeletePropagationOrphan
		if orphan { // which of two deletions comes first decides about a common dependent
			w.calm()
			w.settle()
		}
		if !w.exists(o) {
			return
		}
		w.deleteIn(policy, o)
		w.model.delete(o.GetName(), orphan)
		if orphan {
			w.disturb()
			w.calm()
			w.settle()
		}
		return
	}
}

// touch changes an object in a way that concerns nobody. The collector may delete it at the same time.
func (w *world) touch() {
	o := w.objects[w.r.IntN(len(w.objects))].DeepCopyObject().(client.Object)
	if !w.Get(w.t, o) || o.GetDeletionTimestamp() != nil {
		return
	}
	c := w.Client("user", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"patch"}})
	label := fmt.Sprintf(`{"metadata":{"labels":{"touched":"%d"}}}`, w.r.Uint32())
	if _, err := client.PatchObject(w.t.Context(), c, nameOnly(graph.RefTo(by(o), o.GetNamespace())), client.MergePatch([]byte(label))); client.IgnoreNotFound(err) != nil {
		w.t.Error(err)
	}
}

// disturb does something to the watches that the collector has to live with.
func (w *world) disturb() {
	gvk := []schema.GroupVersionKind{widgetKind, corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("ConfigMap")}[w.r.IntN(3)]
	switch w.r.IntN(6) {
	case 0:
		w.BreakWatch(gvk)
	case 1:
		w.Compact(gvk)
	case 2:
		w.DelayWatch(gvk, time.Duration(w.r.IntN(300))*time.Millisecond)
	case 3:
		w.FreezeWatch(gvk, true)
	case 4:
		w.FreezeWatch(gvk, false)
	case 5:
		w.start()
	}
}

func (w *world) calm() {
	for _, gvk := range []schema.GroupVersionKind{widgetKind, corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("ConfigMap")} {
		w.DelayWatch(gvk, 0)
		w.FreezeWatch(gvk, false)
	}
}

// left returns what is there.
func (w *world) left() []string {
	m := model{owners: map[string][]string{}}
	names := map[string]string{}
	for _, o := range w.objects {
		names[string(o.GetUID())] = o.GetName()
	}
	for _, o := range w.objects {
		now := o.DeepCopyObject().(client.Object)
		if !w.Get(w.t, now) {
			continue
		}
		m.owners[now.GetName()] = nil
		for _, ref := range now.GetOwnerReferences() {
			m.owners[now.GetName()] = append(m.owners[now.GetName()], names[string(ref.UID)])
		}
	}
	return m.text()
}

// Random owners, random deletions, watches that break, lag and restart: in the end there is what the model says, no live
// object was deleted and none without an owner is left.
func TestTheEndIsThatOfTheModel(t *testing.T) {
	seeds := uint64(15)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{lab: newLab(t), r: rand.New(rand.NewPCG(seed, 7)), model: model{owners: map[string][]string{}}}
				w.grow(10)
				w.start()
				for range 30 {
					switch w.r.IntN(6) {
					case 0, 1:
						w.remove()
					case 2:
						w.calm()
						w.settle() // an orphaning owner has to know its dependents, and new objects are not seen otherwise
						w.grow(1 + w.r.IntN(5))
						w.settle()
					case 3:
						w.touch()
					case 4:
						w.disturb()
					case 5:
						time.Sleep(time.Duration(w.r.IntN(200)) * time.Millisecond)
					}
				}
				w.calm()
				w.settle()
				w.model.collect()
				if got, want := w.left(), w.model.text(); !slices.Equal(got, want) {
					t.Errorf("left:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
				w.noErrors()
			})
		})
	}
}

// settle waits until the collector has seen and done everything: reconnecting watches included.
func (w *world) settle() {
	time.Sleep(2 * time.Minute)
	w.Settle()
	w.model.collect()
}

func TestManyWritersAreNoRace(t *testing.T) { // GC-09
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t)
		var owners []*corev1.ConfigMap
		for i := range 5 {
			o := configMap(fmt.Sprint("o", i))
			l.add(o)
			owners = append(owners, o)
		}
		l.start()
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				p := pod(fmt.Sprint("p", i), by(owners[i%5]))
				l.add(p)
				for n := range 40 {
					p.OwnerReferences = []metav1.OwnerReference{blocking(by(owners[(i+n)%4])), by(owners[4])}
					l.Update(t, p)
					time.Sleep(time.Millisecond)
				}
			})
		}
		wg.Go(func() {
			for range 40 {
				_ = l.o.graph.Load().WriteDOT(&strings.Builder{})
				time.Sleep(time.Millisecond)
			}
		})
		wg.Wait()
		for _, o := range owners {
			l.deleteIn(metav1.DeletePropagationForeground, o)
		}
		l.Settle()
		if left := len(kittest.List[corev1.Pod](t, l.API, "default")); left != 0 {
			t.Errorf("%d pods are left", left)
		}
		l.noErrors()
	})
}
