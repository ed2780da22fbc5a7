package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/component-base/featuregate"

	"orrery/kit"
	"orrery/kit/cache"
	"orrery/kit/client"
	"orrery/kit/kittest"
	"orrery/kit/leader"
	"orrery/kit/manager"
)

var gadgetKind = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Gadget"}

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
}

// labelling returns a reconciler that puts a label on config maps.
func labelling(cc kit.ControllerContext) kit.Reconciler[kit.Key] {
	return kit.Objects(kit.Store[corev1.ConfigMap](cc), kit.ObjectFunc[*corev1.ConfigMap](func(ctx context.Context, m *corev1.ConfigMap) (kit.Result, error) {
		if m.Labels["seen"] == "yes" {
			return kit.Done, nil
		}
		cc.Recorder.Event(m, "Normal", "Seen", "it was seen")
		_, err := client.PatchObject(ctx, cc.Client, m, client.MergePatch([]byte(`{"metadata":{"labels":{"seen":"yes"}}}`)))
		return kit.Done, err
	}))
}

func labeller() kit.Descriptor {
	return kit.Descriptor{Name: "labeller", Init: func(cc kit.ControllerContext) (bool, error) {
		return true, kit.NewController(cc, labelling(cc)).Watch(kit.For[corev1.ConfigMap]()).Complete()
	}}
}

func (p *process) expectEnd(t *testing.T, api *kittest.API) {
	t.Helper()
	p.stop()
	api.Pass(2 * time.Minute)
	if err := p.result(t); err != nil {
		t.Errorf("Start = %v", err)
	}
}

func TestAControllerIsNamedAfterItsKindAndRunsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, configMap("a"))
		m := newManager(t, api, manager.Options{})
		cc := m.Context("")
		build := func() error {
			return kit.NewController(cc, labelling(cc)).Watch(kit.For[corev1.ConfigMap]()).Workers(3).Complete()
		}
		if err := build(); err != nil {
			t.Fatal(err)
		}
		if err := build(); err == nil || !strings.Contains(err.Error(), "configmap") {
			t.Errorf("a second one of the name: %v", err)
		}
		other := m.Context("")
		err := kit.NewController(other, labelling(other)).Watch(kit.For[corev1.ConfigMap]()).Complete()
		if err == nil || !strings.Contains(err.Error(), "configmap") {
			t.Errorf("one of the name in another context: %v", err)
		}
		if err := kit.NewController(other, labelling(other)).Watch(kit.Every(time.Hour, kit.Key{})).Complete(); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("one without a name: %v", err)
		}
		p := start(t, api, m)
		api.Pass(time.Minute)
		if writes := api.TakeWrites(); len(writes) != 2 || !slices.Contains(writes, "patch v1/configmaps default/a") || !strings.Contains(strings.Join(writes, " "), "create v1/events default/a.") {
			t.Errorf("%q, want a label and an event", writes)
		}
		all := m.Controllers()
		if len(all) != 1 || all[0].Name() != "configmap" || all[0].State(time.Now()).Workers != 3 {
			t.Errorf("controllers: %d", len(all))
		}
		all[0].Run(t.Context()) // a second time: returns at once
		p.expectEnd(t, api)
	})
}

// TestTheLeaseDecidesWhoWrites: the controller of a standby is warm and idle, one without a lease works in both.
func TestTheLeaseDecidesWhoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, configMap("a"))
		var counted [2]int
		begin := func(n int) *process {
			m := newManager(t, api, manager.Options{Election: manager.Election{Enabled: true}})
			if err := m.AddDescriptor(labeller()); err != nil {
				t.Fatal(err)
			}
			cc := m.ContextWithoutLease("counter")
			counter := kit.Func[kit.Key](func(context.Context, kit.Key) (kit.Result, error) { counted[n]++; return kit.Done, nil })
			if err := kit.NewController(cc, counter).Watch(kit.For[corev1.ConfigMap]()).Complete(); err != nil {
				t.Fatal(err)
			}
			return start(t, api, m)
		}
		first := begin(0)
		api.Pass(10 * time.Second)
		was := holder(t, api)
		second := begin(1)
		api.Pass(time.Minute)
		if i := second.Cache().Existing(corev1.SchemeGroupVersion.WithKind("ConfigMap"), cache.Structured); i == nil || !i.HasSynced() {
			t.Error("the cache of the standby is cold")
		}
		if _, err := client.PatchObject(t.Context(), second.Context("x").Client, configMap("a"), client.MergePatch([]byte(`{}`))); !errors.Is(err, leader.ErrFenced) {
			t.Errorf("a write of what needs the lease in a standby: %v", err)
		}
		if _, err := client.PatchObject(t.Context(), second.Client(), configMap("a"), client.MergePatch([]byte(`{}`))); err != nil {
			t.Errorf("a write of what needs no lease: %v", err)
		}
		api.TakeWrites()
		first.expectEnd(t, api)
		api.Create(t, configMap("b"))
		api.Pass(time.Second)
		if writes := api.TakeWrites(); !slices.Contains(writes, "patch v1/configmaps default/b") || holder(t, api) == was {
			t.Errorf("after the hand-over: %q, holder %q", writes, holder(t, api))
		}
		if counted[0] == 0 || counted[1] < counted[0] {
			t.Errorf("without a lease: %v", counted)
		}
		second.expectEnd(t, api)
	})
}

func TestACacheThatIsNotFilledInTimeIsAnErrorThatNamesTheKind(t *testing.T) {
	for name, add := range map[string]func(*manager.Manager) error{
		"asked for before the start": func(m *manager.Manager) error { return m.AddDescriptor(labeller()) },
		"asked for while leading": func(m *manager.Manager) error {
			return m.Add(manager.Func("late", func(context.Context) error {
				cc := m.Context("late labeller")
				return kit.NewController(cc, labelling(cc)).Watch(kit.For[corev1.ConfigMap]()).Complete()
			}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := kittest.New(t)
				api.React(func(r *kittest.Request) *kittest.Reaction {
					if r.Resource.Resource == "configmaps" {
						return kittest.Refuse(403, "not for you")
					}
					return nil
				})
				m := newManager(t, api, manager.Options{SyncTimeout: 30 * time.Second})
				if err := add(m); err != nil {
					t.Fatal(err)
				}
				p := start(t, api, m)
				api.Pass(29 * time.Second)
				select {
				case err := <-p.ended:
					t.Fatalf("ended too soon: %v", err)
				default:
				}
				api.Pass(10 * time.Second)
				err := p.result(t)
				if err == nil || !strings.Contains(err.Error(), "ConfigMap.v1") || !strings.Contains(err.Error(), "not for you") || !strings.Contains(err.Error(), "30s") {
					t.Errorf("Start = %v", err)
				}
				api.Unreact()
			})
		})
	}
}

// TestAControllerWaitsForItsKind: the CustomResourceDefinition is installed when the process runs already.
func TestAControllerWaitsForItsKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, configMap("a"))
		resource := gadgetKind.GroupVersion().WithResource("gadgets")
		m := newManager(t, api, manager.Options{})
		tries := 0
		gadgets := kit.Descriptor{Name: "gadgets", Kinds: []schema.GroupVersionKind{gadgetKind}, Init: func(cc kit.ControllerContext) (bool, error) {
			tries++
			store := kit.StoreOfKind[unstructured.Unstructured](cc, gadgetKind)
			r := kit.Objects(store, kit.ObjectFunc[*unstructured.Unstructured](func(ctx context.Context, g *unstructured.Unstructured) (kit.Result, error) {
				if g.GetAnnotations()["size"] == "5" {
					return kit.Done, nil
				}
				patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]string{"size": "5"}}})
				if err == nil {
					_, err = client.PatchObject(ctx, cc.Client, g, client.MergePatch(patch))
				}
				return kit.Done, err
			}))
			return true, kit.NewController(cc, r).Watch(kit.For[unstructured.Unstructured]().OfKind(gadgetKind)).Complete()
		}}
		if err := errors.Join(m.AddDescriptor(gadgets), m.AddDescriptor(labeller())); err != nil {
			t.Fatal(err)
		}
		p := start(t, api, m)
		api.Pass(time.Minute)
		if tries != 0 || !slices.Contains(api.TakeWrites(), "patch v1/configmaps default/a") {
			t.Errorf("%d tries; want none, and the other controller at work", tries)
		}
		api.AddKind(gadgetKind, "gadgets", true)
		api.Serve(resource, true)
		g := &unstructured.Unstructured{}
		g.SetGroupVersionKind(gadgetKind)
		g.SetNamespace("default")
		g.SetName("g")
		api.Create(t, g)
		api.Pass(5 * time.Second)
		if writes := api.TakeWrites(); !slices.Equal(writes, []string{"patch example.com/v1/gadgets default/g"}) || tries != 1 {
			t.Errorf("%q after %d tries", writes, tries)
		}
		if got, err := client.Get[unstructured.Unstructured](t.Context(), m.Client(), client.Key{Namespace: "default", Name: "g"}, client.Kind(gadgetKind)); err != nil || got.GetAnnotations()["size"] != "5" {
			t.Errorf("from the cache: %v, %v", got, err)
		}
		p.expectEnd(t, api)
	})
}

func TestADescriptorIsCheckedBeforeTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		m := newManager(t, api, manager.Options{})
		bad := labeller()
		bad.Validate = func() []error { return []error{errors.New("--size: too small")} }
		for want, d := range map[string]kit.Descriptor{"Name and Init": {Name: "x"}, "too small": bad} {
			if err := m.AddDescriptor(d); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		}
		failing := kit.Descriptor{Name: "failing", Init: func(kit.ControllerContext) (bool, error) { return false, errors.New("no such file") }}
		gated := labeller()
		gated.Name, gated.FeatureGates = "gated", []featuregate.Feature{"Gadgets"}
		gated.Init = func(kit.ControllerContext) (bool, error) {
			t.Error("built although its feature gate is off")
			return false, nil
		}
		skipped := kit.Descriptor{Name: "skipped", Init: func(kit.ControllerContext) (bool, error) { return false, nil }}
		if err := errors.Join(m.AddDescriptor(gated), m.AddDescriptor(skipped), m.AddDescriptor(failing)); err != nil {
			t.Fatal(err)
		}
		p := start(t, api, m)
		api.Pass(time.Minute)
		if err := p.result(t); err == nil || !strings.Contains(err.Error(), "controller failing: no such file") {
			t.Errorf("Start = %v", err)
		}
		if err := m.AddDescriptor(labeller()); err == nil || !strings.Contains(err.Error(), "has started") {
			t.Errorf("after the start: %v", err)
		}
	})
}

func TestReadsAndWritesAsTheOptionsSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		elsewhere := configMap("far")
		elsewhere.Namespace = "other"
		picked, secret := configMap("picked"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "s"}}
		picked.Labels = map[string]string{"pick": "me"}
		api := kittest.New(t, configMap("near"), elsewhere, picked, secret)
		m := newManager(t, api, manager.Options{
			Cache: manager.Cache{
				Namespaces: []string{"default", "third"},
				Kinds:      map[schema.GroupVersionKind]cache.Kind{corev1.SchemeGroupVersion.WithKind("ConfigMap"): {Labels: "pick=me"}},
			},
			Client: manager.Client{Uncached: []client.Object{&corev1.Secret{}}, DryRun: true},
		})
		byName := cache.Index[*corev1.ConfigMap]{Name: "name", Keys: func(m *corev1.ConfigMap) []string { return []string{m.Name} }}
		maps, err := manager.Store(m, byName)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := manager.Store[corev1.Secret](m); err != nil {
			t.Fatal(err)
		}
		p := start(t, api, m)
		api.Pass(time.Second)
		if maps.Len() != 1 || len(maps.By(byName, "picked")) != 1 {
			t.Errorf("%d config maps cached, want the picked one", maps.Len())
		}
		reads := 0
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "get" && r.User == "test" {
				reads++
			}
			return nil
		})
		for _, read := range []struct {
			what string
			get  func() error
			live int
		}{
			{"a cached one", func() error {
				_, err := client.Get[corev1.ConfigMap](t.Context(), m.Client(), client.KeyOf(picked))
				return err
			}, 0},
			{"one outside the namespaces", func() error {
				_, err := client.Get[corev1.ConfigMap](t.Context(), m.Client(), client.KeyOf(elsewhere))
				return err
			}, 1},
			{"one of a kind that bypasses the cache", func() error {
				_, err := client.Get[corev1.Secret](t.Context(), m.Client(), client.KeyOf(secret))
				return err
			}, 1},
			{"a live one", func() error {
				_, err := client.Get[corev1.ConfigMap](t.Context(), m.Live(), client.KeyOf(picked))
				return err
			}, 1},
		} {
			reads = 0
			if err := read.get(); err != nil || reads != read.live {
				t.Errorf("%s: %v, %d calls, want %d", read.what, err, reads, read.live)
			}
		}
		api.TakeWrites()
		if _, err := client.Create(t.Context(), m.Client(), configMap("new")); err != nil || api.Get(t, configMap("new")) {
			t.Errorf("a dry run: %v, stored %t", err, api.Get(t, configMap("new")))
		}
		p.expectEnd(t, api)
	})
}
