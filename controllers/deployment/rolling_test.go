package deployment

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// set returns a ReplicaSet with a size and a number of available pods. Its name, a letter, determines its age too.
func set(name string, size, available int32) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(int64(name[0])*60, 0)},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &size},
		Status:     appsv1.ReplicaSetStatus{Replicas: size, ReadyReplicas: available, AvailableReplicas: available},
	}
}

// unseen makes the status of a ReplicaSet older than its size.
func unseen(rs *appsv1.ReplicaSet) *appsv1.ReplicaSet {
	rs.Generation = rs.Status.ObservedGeneration + 1
	return rs
}

// show formats a plan as "a>3 b>0".
func show(plan []resize) string {
	var out []string
	for _, p := range plan {
		out = append(out, fmt.Sprintf("%s>%d", p.set.Name, p.to))
	}
	return strings.Join(out, " ")
}

func TestPlanRolling(t *testing.T) {
	for _, c := range []struct {
		name    string
		b       bounds
		current *appsv1.ReplicaSet
		old     []*appsv1.ReplicaSet
		want    string
	}{
		{"the start of a rollout", bounds{10, 3, 2}, set("n", 3, 0), []*appsv1.ReplicaSet{set("a", 10, 10)}, "a>8"},
		{"room is taken", bounds{10, 3, 2}, set("n", 3, 0), []*appsv1.ReplicaSet{set("a", 8, 8)}, "n>5"},
		{"nothing moves until pods are available", bounds{10, 3, 2}, set("n", 5, 0), []*appsv1.ReplicaSet{set("a", 8, 8)}, ""},
		{"available pods free old ones", bounds{10, 3, 2}, set("n", 5, 2), []*appsv1.ReplicaSet{set("a", 8, 8)}, "a>6"},
		{"growth and decline go together", bounds{10, 3, 2}, set("n", 5, 5), []*appsv1.ReplicaSet{set("a", 6, 6)}, "n>7 a>3"},
		{"the end", bounds{10, 3, 2}, set("n", 10, 10), []*appsv1.ReplicaSet{set("a", 2, 2)}, "a>0"},
		{"done", bounds{10, 3, 2}, set("n", 10, 10), []*appsv1.ReplicaSet{set("a", 0, 0)}, ""},
		{"no surge", bounds{2, 0, 1}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 2, 2)}, "a>1"},
		{"no unavailability", bounds{2, 1, 0}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 2, 2)}, "n>1"},
		{"all at once", bounds{4, 4, 4}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 4, 4)}, "n>4 a>0"},
		{"too large a current set", bounds{3, 1, 1}, set("n", 5, 5), nil, "n>3"},
		{"more is asked for than the ceiling", bounds{4, 1, 1}, set("n", 2, 2), []*appsv1.ReplicaSet{set("a", 8, 8)}, "a>1"},
		{"unavailable old pods go first", bounds{10, 0, 2}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 5, 5), set("b", 5, 1)}, "b>3"},
		{"below the floor only unavailable ones go", bounds{4, 4, 2}, set("n", 4, 0), []*appsv1.ReplicaSet{set("a", 2, 0), set("b", 2, 1)}, "a>0"},
		{"a crash loop is rolled back", bounds{10, 3, 2}, set("n", 8, 7), []*appsv1.ReplicaSet{set("x", 5, 0)}, "x>1"},
		{"a roll-over", bounds{10, 3, 2}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 8, 8), set("b", 5, 0)}, "b>0"},
		{"the oldest gives way first", bounds{10, 3, 2}, set("n", 6, 6), []*appsv1.ReplicaSet{set("a", 3, 3), set("b", 4, 4)}, "a>0 b>2"},
		{"pods about to go do not count", bounds{10, 3, 2}, set("n", 5, 0), []*appsv1.ReplicaSet{set("a", 8, 10)}, ""},
		{"nor bring any back", bounds{10, 0, 2}, set("n", 0, 0), []*appsv1.ReplicaSet{set("a", 5, 10), set("b", 5, 0)}, "b>3"},
		{"a template that comes back was smaller in between", bounds{10, 3, 2}, unseen(set("n", 8, 8)), []*appsv1.ReplicaSet{set("a", 5, 5)}, ""},
		{"old pods of unknown state do not go", bounds{10, 3, 2}, set("n", 8, 8), []*appsv1.ReplicaSet{unseen(set("a", 4, 0))}, "n>9"},
		{"and spare no others", bounds{10, 3, 2}, set("n", 2, 2), []*appsv1.ReplicaSet{unseen(set("a", 5, 5)), set("b", 6, 6)}, ""},
		{"scaled to nothing", bounds{0, 0, 0}, set("n", 2, 2), []*appsv1.ReplicaSet{set("a", 3, 3)}, "n>0 a>0"},
	} {
		if got := show(planRolling(c.b, c.current, c.old)); got != c.want {
			t.Errorf("%s: plan %q, want %q", c.name, got, c.want)
		}
	}
}

// world is a set of ReplicaSets whose pods come and go at random, with statuses that may lag.
type world struct {
	rand *rand.Rand
	sets []*appsv1.ReplicaSet // the current one last
	pods map[string]int32     // how many pods of a set are truly available
}

func (w *world) apply(plan []resize) {
	for _, p := range plan {
		*p.set.Spec.Replicas = p.to
	}
}

// live simulates the passing of time: ReplicaSets create pods, or delete them, unavailable ones first; pods become
// available; and some of the statuses catch up.
func (w *world) live(healthy bool) {
	for _, rs := range w.sets {
		w.pods[rs.Name] = min(w.pods[rs.Name], size(rs))
		if w.rand.IntN(2) == 0 && (healthy || rs != w.sets[len(w.sets)-1]) {
			w.pods[rs.Name] += w.rand.Int32N(size(rs) - w.pods[rs.Name] + 1)
		}
		if w.rand.IntN(3) > 0 {
			rs.Status.Replicas, rs.Status.AvailableReplicas = size(rs), w.pods[rs.Name]
		}
	}
}

func (w *world) available() int32 {
	return sum(w.sets, func(rs *appsv1.ReplicaSet) int32 { return min(w.pods[rs.Name], size(rs)) })
}

func TestNoSequenceOfStepsLeavesTheBounds(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 1))
	for range 1000 {
		b := bounds{desired: r.Int32N(12), surge: r.Int32N(4)}
		b.unavailable = min(b.desired, r.Int32N(4))
		if b.surge+b.unavailable == 0 {
			b.unavailable = min(1, b.desired)
		}
		w := &world{rand: r, pods: map[string]int32{}}
		for i := range 1 + r.IntN(3) {
			name := string(rune('a' + i))
			n := r.Int32N(b.ceiling() - sum(w.sets, size) + 1)
			w.sets = append(w.sets, set(name, n, n))
			w.pods[name] = n
		}
		w.sets = append(w.sets, set("n", 0, 0))
		runRollout(t, w, b, r.IntN(4) > 0)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// runRollout takes steps until the rollout has ended, or for a while if its pods never become available.
func runRollout(t *testing.T, w *world, b bounds, healthy bool) {
	current, old := w.sets[len(w.sets)-1], w.sets[:len(w.sets)-1]
	for range 300 {
		before := w.available()
		plan := planRolling(b, current, old)
		for _, p := range plan {
			if p.set != current && p.to >= size(p.set) {
				t.Fatalf("%+v: an old set of %d does not shrink: %s", b, size(p.set), show(plan))
			}
		}
		w.apply(plan)
		if total := sum(w.sets, size); total > b.ceiling() {
			t.Fatalf("%+v: %d pods asked for after %s", b, total, show(plan))
		}
		if after := w.available(); after < min(before, b.floor()) {
			t.Fatalf("%+v: %d pods available, after %d before %s", b, after, before, show(plan))
		}
		w.live(healthy)
		if size(current) == b.desired && sum(old, size) == 0 {
			return
		}
	}
	if healthy {
		t.Fatalf("%+v: the rollout has not ended: %d pods of the current set, %d of others", b, size(current), sum(old, size))
	}
}
