package tainteviction

import (
	"testing"
	"testing/synctest"
	"time"

	compmetrics "k8s.io/component-base/metrics"

	"orrery/kit/kittest"
)

// TestDeletionsAreTimedInSeconds from when a pod was due; a refused one is timed when it is stored.
func TestDeletionsAreTimedInSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		registry := compmetrics.NewKubeRegistry()
		api := kittest.New(t, node("n", taint("a")), pod("now", "n"), pod("later", "n", tolerates("a", 10)))
		begin := time.Now()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "delete" && r.Name == "later" && time.Since(begin) < 14*time.Second {
				return kittest.Refuse(500, "not now")
			}
			return nil
		})
		cc := api.Context(Name, Descriptor().RBAC...)
		cc.Register = func(all ...compmetrics.Registerable) { registry.MustRegister(all...) }
		api.RunIn(t, cc, initialize)
		api.Pass(time.Minute)
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, f := range families {
			switch m := f.GetMetric()[0]; f.GetName() {
			case "taint_eviction_controller_pod_deletions_total":
				seen++
				if got := m.GetCounter().GetValue(); got != 2 {
					t.Errorf("%v deletions, want 2", got)
				}
			case "taint_eviction_controller_pod_deletion_duration_seconds":
				seen++
				if h := m.GetHistogram(); h.GetSampleCount() != 2 || h.GetSampleSum() < 4 || h.GetSampleSum() > 15 {
					t.Errorf("%d deletions of %v s in all, want 2 of 4 to 15 s", h.GetSampleCount(), h.GetSampleSum())
				}
			}
		}
		if seen != 2 {
			t.Errorf("%d of the two metrics are there", seen)
		}
	})
}
