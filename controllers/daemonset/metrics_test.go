package daemonset

import (
	"testing"

	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit"
)

// registered gives a controller a registry, and returns a function that reads the counter of delayed reconciles.
func registered(t *testing.T, cc *kit.ControllerContext) (skips func(resource string) float64) {
	t.Helper()
	registry := compmetrics.NewKubeRegistry()
	cc.Register = registry.MustRegister
	return func(resource string) float64 {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			if f.GetName() != "daemonset_controller_stale_sync_skips_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetName() == "resource" && l.GetValue() == resource {
						return m.GetCounter().GetValue()
					}
				}
			}
		}
		t.Fatalf("no counter for %s", resource)
		return 0
	}
}

func TestSkipsAreCountedFromZero(t *testing.T) {
	var cc kit.ControllerContext
	skips := registered(t, &cc)
	newMetrics().publish(cc.Register)
	for _, resource := range []string{"pods", "daemonsets", "controllerrevisions"} {
		if n := skips(resource); n != 0 {
			t.Errorf("%v for %s", n, resource)
		}
	}
}
