package nodelifecycle

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/topology"
)

// A zone that goes to and fro between its states is not evicted from faster than one that stays in one.
func TestAnotherRateBringsNoEviction(t *testing.T) {
	for _, tc := range []struct {
		name  string
		spent bool // the zone has just evicted
		rates []float32
		want  time.Duration // until the first eviction at the last rate
	}{
		{"slower, with one to spend", false, []float32{0.01}, 0},
		{"slower, with none to spend", true, []float32{0.01}, 100 * time.Second},
		{"faster, with none to spend", true, []float32{1}, time.Second},
		{"the same", true, []float32{0.1}, 10 * time.Second},
		{"none, and the same again", true, []float32{0, 0.1}, 10 * time.Second},
		{"none, and the same again, with one to spend before", false, []float32{0, 0.1}, 10 * time.Second},
		{"none for long", false, []float32{0, 0, 0.01}, 100 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				z := newZones(options{evictionRate: 0.1}, func(string) {})
				n := node("n", "a", corev1.ConditionFalse)
				zone := topology.GetZoneKey(n)
				z.ensure(zone, newMetrics())
				z.enqueue(n)
				if _, wait, ok := z.next(zone, time.Now()); !ok || wait != 0 {
					t.Fatalf("the first eviction waits for %s, queued %t", wait, ok)
				}
				if tc.spent {
					z.spend(zone, time.Now())
				}
				for _, r := range tc.rates {
					z.byName[zone].setLimit(r)
				}
				if _, wait, _ := z.next(zone, time.Now()); wait.Round(time.Second) != tc.want {
					t.Errorf("the next eviction waits for %s, want %s", wait, tc.want)
				}
			})
		})
	}
}
