package skips

import (
	"maps"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	compmetrics "k8s.io/component-base/metrics"
)

func TestEachResourceIsCountedFromZero(t *testing.T) {
	pods, sets := schema.GroupResource{Resource: "pods"}, schema.GroupResource{Group: "apps", Resource: "replicasets"}
	registry := compmetrics.NewKubeRegistry()
	c := New("replicaset_controller", "ReplicaSet")
	registry.MustRegister(c)
	c.Start(pods, sets)
	c.Add(sets)
	families, err := registry.Gather()
	if err != nil || len(families) != 1 || families[0].GetName() != "replicaset_controller_stale_sync_skips_total" {
		t.Fatalf("gathered %v, %v", families, err)
	}
	got := map[schema.GroupResource]float64{}
	for _, m := range families[0].GetMetric() {
		var r schema.GroupResource
		for _, l := range m.GetLabel() {
			switch l.GetName() {
			case "group":
				r.Group = l.GetValue()
			case "resource":
				r.Resource = l.GetValue()
			}
		}
		got[r] = m.GetCounter().GetValue()
	}
	if want := map[schema.GroupResource]float64{pods: 0, sets: 1}; !maps.Equal(got, want) {
		t.Errorf("counted %v, want %v", got, want)
	}
}
