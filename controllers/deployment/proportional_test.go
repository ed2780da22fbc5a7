package deployment

import (
	"math/rand/v2"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// sizedFor annotates a ReplicaSet with the bounds for which it was sized.
func sizedFor(rs *appsv1.ReplicaSet, desired, surge int32) *appsv1.ReplicaSet {
	rs.Annotations, _ = sized(nil, bounds{desired: desired, surge: surge})
	return rs
}

func TestPlanScale(t *testing.T) {
	unmarked := set("a", 5, 5)
	for _, c := range []struct {
		name    string
		b       bounds
		current *appsv1.ReplicaSet
		old     []*appsv1.ReplicaSet
		want    string
	}{
		{"a stuck rollout grows in proportion", bounds{20, 3, 2},
			sizedFor(set("n", 5, 0), 10, 3), []*appsv1.ReplicaSet{sizedFor(set("a", 8, 8), 10, 3)}, "a>14 n>9"},
		{"and shrinks", bounds{5, 2, 1},
			sizedFor(set("n", 5, 0), 10, 3), []*appsv1.ReplicaSet{sizedFor(set("a", 8, 8), 10, 3)}, "a>4 n>3"},
		{"to nothing", bounds{0, 0, 0},
			sizedFor(set("n", 5, 0), 10, 3), []*appsv1.ReplicaSet{sizedFor(set("a", 8, 8), 10, 3)}, "a>0 n>0"},
		{"the newer of equals grows first", bounds{11, 0, 1},
			sizedFor(set("n", 5, 0), 10, 0), []*appsv1.ReplicaSet{sizedFor(set("a", 5, 5), 10, 0)}, "n>6 a>5"},
		{"the older of equals shrinks first", bounds{9, 0, 1},
			sizedFor(set("n", 5, 0), 10, 0), []*appsv1.ReplicaSet{sizedFor(set("a", 5, 5), 10, 0)}, "a>4 n>5"},
		{"the largest gets what is left over", bounds{11, 0, 1},
			sizedFor(set("n", 3, 0), 10, 0), []*appsv1.ReplicaSet{sizedFor(set("a", 4, 4), 10, 0), sizedFor(set("b", 3, 3), 10, 0)}, "a>5 n>3 b>3"},
		{"sizes that fit are only noted anew", bounds{12, 1, 1},
			sizedFor(set("n", 5, 0), 10, 3), []*appsv1.ReplicaSet{sizedFor(set("a", 8, 8), 10, 3)}, "a>8 n>5"},
		{"the only active set takes all", bounds{7, 1, 1}, sizedFor(set("n", 5, 5), 5, 1), []*appsv1.ReplicaSet{set("a", 0, 0)}, "n>7"},
		{"even an old one", bounds{7, 1, 1}, nil, []*appsv1.ReplicaSet{sizedFor(set("a", 5, 5), 5, 1)}, "a>7"},
		{"with none active, the current one", bounds{7, 1, 1}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 0, 0)}, "n>7"},
		{"or the newest", bounds{7, 1, 1}, nil, []*appsv1.ReplicaSet{set("a", 0, 0), set("b", 0, 0)}, "b>7"},
		{"without any there is nothing to do", bounds{7, 1, 1}, nil, nil, ""},
		{"of the right size already", bounds{5, 1, 1}, sizedFor(set("n", 5, 5), 5, 1), nil, ""},
		{"of the right size and without a note", bounds{5, 1, 1}, nil, []*appsv1.ReplicaSet{unmarked}, ""},
		{"of the right size with a stale note", bounds{4, 0, 1}, set("n", 0, 0), []*appsv1.ReplicaSet{sizedFor(set("a", 4, 4), 5, 0)}, "a>4"},
		{"a saturated current set has no use for others", bounds{5, 1, 1},
			sizedFor(set("n", 5, 5), 5, 1), []*appsv1.ReplicaSet{sizedFor(set("a", 2, 2), 4, 1)}, "a>0"},
	} {
		if got := show(planScale(c.b, true, c.current, c.old, 10)); got != c.want {
			t.Errorf("%s: plan %q, want %q", c.name, got, c.want)
		}
	}
}

func TestScaleWithoutNotes(t *testing.T) {
	current, old := set("n", 5, 0), []*appsv1.ReplicaSet{set("a", 8, 8)}
	if got := show(planScale(bounds{20, 3, 2}, true, current, old, 13)); got != "a>14 n>9" {
		t.Errorf("by the recorded size: plan %q, want a>14 n>9", got)
	}
	if got := show(planScale(bounds{20, 3, 2}, true, current, old, 0)); got != "a>18 n>5" {
		t.Errorf("with nothing to go by: plan %q, want a>18 n>5", got)
	}
}

func TestARecreateThatTookOverIsNotHeldUp(t *testing.T) {
	current, old := sizedFor(set("n", 5, 0), 10, 3), []*appsv1.ReplicaSet{sizedFor(set("a", 8, 8), 10, 3)}
	if got := show(planScale(bounds{desired: 12}, false, current, old, 13)); got != "a>8 n>5" {
		t.Errorf("plan %q, want both sets noted anew at their size", got)
	}
}

func TestIsScaled(t *testing.T) {
	b := bounds{4, 1, 1}
	broken := set("x", 2, 2)
	broken.Annotations = map[string]string{desiredAnnotation: "-3"}
	for name, c := range map[string]struct {
		rs   *appsv1.ReplicaSet
		want bool
	}{
		"up to date":       {sizedFor(set("a", 3, 3), 4, 1), false},
		"another number":   {sizedFor(set("a", 3, 3), 5, 1), true},
		"another ceiling":  {sizedFor(set("a", 3, 3), 4, 2), false},
		"inactive":         {sizedFor(set("a", 0, 0), 5, 1), false},
		"without a note":   {set("a", 3, 3), false},
		"a note of no use": {broken, false},
	} {
		if got := isScaled(b, []*appsv1.ReplicaSet{c.rs}); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestProportionsLoseNothing(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 2))
	for range 5000 {
		was := bounds{desired: 1 + r.Int32N(20), surge: r.Int32N(6)}
		now := bounds{desired: r.Int32N(40), surge: r.Int32N(6)}
		left := was.ceiling()
		var sets []*appsv1.ReplicaSet
		for _, name := range []string{"a", "b", "c"} {
			n := r.Int32N(left + 1)
			left -= n
			sets = append(sets, sizedFor(set(name, n, n), was.desired, was.surge))
		}
		sets = active(sets)
		if len(sets) < 2 {
			continue
		}
		want := now.ceiling()
		if now.desired == 0 {
			want = 0
		}
		var total int32
		plan := proportions(now, sets, was.ceiling())
		for _, p := range plan {
			if p.to < 0 {
				t.Fatalf("seed %d: from %+v to %+v: %s", seed, was, now, show(plan))
			}
			total += p.to
		}
		if total != want {
			t.Fatalf("seed %d: from %+v to %+v: %s adds up to %d, want %d", seed, was, now, show(plan), total, want)
		}
	}
}
