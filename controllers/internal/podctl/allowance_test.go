package podctl

import (
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"orrery/kit"
)

func TestAllowances(t *testing.T) {
	owner := func(uid string, generation int64) *appsv1.ReplicaSet {
		return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: types.UID(uid), Generation: generation}}
	}
	one := owner("a", 1)
	type step struct {
		after         time.Duration
		owner         *appsv1.ReplicaSet
		size, missing int
		most          int
		want          int
	}
	for name, steps := range map[string][]step{
		"the first fill costs nothing":          {{0, one, 10, 10, 500, 10}, {0, one, 10, 100, 500, 40}, {0, one, 10, 100, 500, 0}},
		"also in bursts":                        {{0, one, 800, 800, 500, 500}, {0, one, 800, 300, 500, 300}, {0, one, 800, 900, 900, 830}},
		"twenty come in a second":               {{0, one, 10, 100, 500, 100}, {0, one, 10, 100, 500, 40}, {time.Second, one, 10, 100, 500, 20}, {time.Second / 10, one, 10, 100, 500, 2}},
		"no more than a replacement and thirty": {{0, one, 10, 10, 500, 10}, {0, one, 10, 40, 500, 40}, {time.Hour, one, 10, 100, 500, 40}},
		"a change of the spec begins anew":      {{0, one, 10, 100, 500, 100}, {0, one, 10, 100, 500, 40}, {0, owner("a", 2), 10, 100, 500, 100}},
		"and so does a namesake":                {{0, one, 10, 100, 500, 100}, {0, one, 10, 100, 500, 40}, {0, owner("b", 1), 10, 100, 500, 100}},
		"growth costs nothing":                  {{0, one, 10, 10, 500, 10}, {0, one, 10, 100, 500, 40}, {0, one, 25, 100, 500, 15}},
		"what shrinks has no debts":             {{0, one, 100, 100, 500, 100}, {0, one, 1, 500, 500, 130}, {0, one, 1, 5, 500, 0}, {time.Second, one, 1, 5, 500, 5}},
	} {
		t.Run(name, func(t *testing.T) {
			a, now := NewAllowances(), time.Unix(1000, 0)
			for i, s := range steps {
				now = now.Add(s.after)
				got, wait := a.Take(t.Context(), s.owner, s.size, s.missing, s.most, now)
				if held := s.want < min(s.missing, s.most); got != s.want || (wait > 0) != held {
					t.Errorf("step %d: granted %d, more in %v, want %d", i, got, wait, s.want)
				}
			}
		})
	}
}

func TestAllowancesThatAreGivenBackOrForgotten(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "a"}}
	a, now := NewAllowances(), time.Unix(1000, 0)
	a.GiveBack(kit.KeyOf(rs), 5) // of nobody
	a.Take(t.Context(), rs, 10, 10, 500, now)
	a.Take(t.Context(), rs, 10, 40, 500, now)
	a.GiveBack(kit.KeyOf(rs), 7)
	if got, _ := a.Take(t.Context(), rs, 10, 40, 500, now); got != 7 {
		t.Errorf("granted %d of 7 that were given back", got)
	}
	a.Forget(kit.KeyOf(rs))
	if got, _ := a.Take(t.Context(), rs, 10, 10, 500, now); got != 10 {
		t.Errorf("granted %d of 10 after all was forgotten", got)
	}
}
