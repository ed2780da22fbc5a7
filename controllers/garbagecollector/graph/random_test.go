package graph

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func uidsOf(s []string) []types.UID {
	out := make([]types.UID, len(s))
	for i := range s {
		out[i] = types.UID(s[i])
	}
	return out
}

// Whatever happens in whatever order: both ends of each edge agree, and when all objects are gone nothing is left.
func TestRandomChangesLeaveTheGraphConsistent(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := New()
		kinds := []string{"Pod", "ConfigMap", "PersistentVolume", "Widget"}
		name := func() string { return fmt.Sprint(r.IntN(8)) }
		place := func() string { return []string{"", "ns/", "other/"}[r.IntN(3)] }
		for range 150 {
			id := name()
			object := fmt.Sprintf("%s %s%s uid=%s", kinds[r.IntN(len(kinds))], place(), []string{id, "x"}[r.IntN(8)/7], id)
			verb := []string{"observe", "observe", "observe", "remove", "doubt", "absent", "forget"}[r.IntN(7)]
			step := verb + " " + object
			if verb == "observe" {
				for range r.IntN(4) {
					step += fmt.Sprintf(" owner=%s:%s:%s%s", kinds[r.IntN(len(kinds))], name(), name(), []string{"", "!"}[r.IntN(2)])
				}
				step += []string{"", "", " deleting", " deleting foreground", " deleting orphan"}[r.IntN(5)]
			}
			perform(t, g, step)
			verify(t, g)
			if t.Failed() {
				t.Fatalf("seed %d, after %s", seed, step)
			}
		}
		for i := range 8 * 50 { // a virtual node goes by one name after the other
			if v, ok := g.View(types.UID(fmt.Sprint(i % 8))); ok {
				g.Absent(v.Ref)
			}
		}
		if n := g.Len(); n != 0 {
			t.Fatalf("seed %d: %d nodes are left when all objects are gone", seed, n)
		}
	}
}

func TestPausesGrowAndEnd(t *testing.T) {
	g := New()
	perform(t, g, "observe Pod ns/a owner=ConfigMap:c")
	last := firstPause / 2
	for i := range 40 {
		p := g.Pause("c").After
		if p < last || p > lastPause || i > 0 && p != lastPause && p != 2*last {
			t.Fatalf("pause %d is %v after %v", i, p, last)
		}
		last = p
	}
	if last != lastPause {
		t.Errorf("the last pause is %v, want %v", last, lastPause)
	}
	perform(t, g, "observe ConfigMap ns/c")
	if p := g.Pause("c").After; p != firstPause {
		t.Errorf("after news the pause is %v, want %v", p, firstPause)
	}
	if p := g.Pause("unknown"); p.After != 0 {
		t.Errorf("pause of an unknown object: %v", p)
	}
}
