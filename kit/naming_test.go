package kit_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit"
	"orrery/kit/kittest"
)

// TestControllersAreNamedAfterTheirKind, also where the Go type does not name it.
func TestControllersAreNamedAfterTheirKind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		nothing := kit.Func[kit.Key](func(context.Context, kit.Key) (kit.Result, error) { return kit.Done, nil })
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		running := api.RunIn(t, api.Context(""), func(cc kit.ControllerContext) (bool, error) {
			if err := kit.NewController(cc, nothing).Watch(kit.For[corev1.Pod]()).Complete(); err != nil {
				return false, err
			}
			if err := kit.NewController(cc, nothing).Watch(kit.For[corev1.Pod]()).Loop("again").Complete(); err != nil {
				return false, err
			}
			return true, kit.NewController(cc, nothing).Watch(kit.For[metav1.PartialObjectMetadata]().OfKind(kind)).Complete()
		})
		var got []string
		for _, c := range running.Controllers {
			got = append(got, c.Name()+" of "+c.Descriptor())
		}
		if want := "pod of pod, pod/again of pod, configmap of configmap"; strings.Join(got, ", ") != want {
			t.Errorf("%q, want %s", got, want)
		}
		cc := api.Context("").In(kit.NewScope())
		if err := kit.NewController(cc, nothing).Complete(); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("without a name: %v", err)
		}
		if err := kit.NewController(cc, nothing).Watch(kit.For[unstructured.Unstructured]()).Complete(); err == nil {
			t.Error("without a kind: no error")
		}
	})
}

// TestSourcesWatchEachForm yields keys from unstructured and metadata-only objects.
func TestSourcesWatchEachForm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
		seen := map[string]int{}
		api.RunIn(t, api.Context("forms"), func(cc kit.ControllerContext) (bool, error) {
			r := kit.Func[string](func(_ context.Context, key string) (kit.Result, error) { seen[key]++; return kit.Done, nil })
			return true, kit.NewController(cc, r).Watch(
				kit.Watches(func(u *unstructured.Unstructured) []string { return []string{"whole " + u.GetName()} }).OfKind(kind),
				kit.Watches(func(m *metav1.PartialObjectMetadata) []string { return []string{"metadata " + m.GetName()} }).OfKind(kind),
			).Complete()
		})
		api.Create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}})
		api.Pass(time.Second)
		if seen["whole a"] != 1 || seen["metadata a"] != 1 {
			t.Errorf("%v", seen)
		}
	})
}

func TestWorkersAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t)
		cc := api.Context("busy")
		registry := compmetrics.NewKubeRegistry()
		registry.MustRegister(cc.Metrics.Registerables()...)
		release := make(chan struct{})
		api.RunIn(t, cc, func(cc kit.ControllerContext) (bool, error) {
			r := kit.Func[string](func(context.Context, string) (kit.Result, error) { <-release; return kit.Done, nil })
			return true, kit.NewController(cc, r).Watch(kit.Every(time.Hour, "a"), kit.Every(time.Hour, "b")).Workers(5).Complete()
		})
		api.Pass(time.Second)
		gauges := func() map[string]float64 {
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			out := map[string]float64{}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					out[f.GetName()] += m.GetGauge().GetValue()
				}
			}
			return out
		}
		if got := gauges(); got["orrery_max_concurrent_reconciles"] != 5 || got["orrery_active_workers"] != 2 {
			t.Errorf("%v while two of five work", got)
		}
		close(release)
		api.Pass(time.Second)
		if got := gauges(); got["orrery_active_workers"] != 0 {
			t.Errorf("%v while none works", got)
		}
	})
}
