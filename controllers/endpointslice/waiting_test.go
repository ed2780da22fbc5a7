package endpointslice

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"orrery/controllers/internal/roster"
	"orrery/kit"
)

// TestNodesThatNeverComeAreForgotten: a missing node is forgotten with the last Service that waits for it. In an autoscaled
// cluster there are always new names of nodes.
func TestNodesThatNeverComeAreForgotten(t *testing.T) {
	r := &reconciler{
		waiting: newWaiting(), triggers: newTriggers(), zones: newZones(nil), metrics: newMetrics(100),
		roster: roster.New(roster.Cache{}),
	}
	web, db := service("web"), service("db")
	on := func(node string) []*corev1.Pod {
		return []*corev1.Pod{pod("web", "p", "10.1.0.1", func(p *corev1.Pod) { p.Spec.NodeName = node })}
	}
	for i := range 100 {
		for _, svc := range []*corev1.Service{web, db} {
			if err := r.awaitNodes(t.Context(), svc, on(fmt.Sprint("spot-", i))); err == nil {
				t.Fatal("a pod of a missing node is no error")
			}
		}
	}
	if err := r.awaitNodes(t.Context(), db, on("spot-7")); err == nil || len(r.waiting.byNode) != 2 {
		t.Errorf("%v; %d nodes are waited for, want spot-99 and spot-7", err, len(r.waiting.byNode))
	}
	if err := r.awaitNodes(t.Context(), web, nil); err != nil || len(r.waiting.byNode) != 1 {
		t.Errorf("%v; %d nodes are waited for, want spot-7 alone", err, len(r.waiting.byNode))
	}
	if got := r.waiting.take("spot-7"); len(got) != 1 || got[0] != kit.KeyOf(db) || len(r.waiting.byNode) != 0 {
		t.Errorf("%v waited for spot-7, %d nodes are left", got, len(r.waiting.byNode))
	}
	_ = r.awaitNodes(t.Context(), db, on("spot-8"))
	r.forget(kit.KeyOf(db))
	if len(r.waiting.byNode) != 0 || len(r.waiting.byService) != 0 {
		t.Errorf("%d nodes and %d Services are left of one that is gone", len(r.waiting.byNode), len(r.waiting.byService))
	}
}
