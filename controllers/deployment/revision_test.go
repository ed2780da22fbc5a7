package deployment

import (
	"maps"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

func revised(name, revision string) *appsv1.ReplicaSet {
	rs := set(name, 0, 0)
	rs.Status.ObservedGeneration = 1
	if revision != "" {
		rs.Annotations = map[string]string{revisionAnnotation: revision}
	}
	return rs
}

func TestTopRevisions(t *testing.T) {
	for _, c := range []struct {
		revisions    []string
		last, before int64
	}{
		{nil, 0, 0},
		{[]string{"1"}, 1, 0},
		{[]string{"3", "1", "2"}, 3, 2},
		{[]string{"1", "3", "2"}, 3, 2},
		{[]string{"2", "x", "", "5"}, 5, 2},
		{[]string{"4", "4"}, 4, 4},
	} {
		var sets []*appsv1.ReplicaSet
		for _, r := range c.revisions {
			sets = append(sets, revised("a", r))
		}
		if last, before := topRevisions(sets); last != c.last || before != c.before {
			t.Errorf("%v: %d and %d, want %d and %d", c.revisions, last, before, c.last, c.before)
		}
	}
}

func TestAnnotated(t *testing.T) {
	type m = map[string]string
	for _, c := range []struct {
		name             string
		have, deployment m
		next             int64
		want             m // nil: unchanged
	}{
		{"a new ReplicaSet", nil, m{"team": "blue"}, 1, m{"team": "blue", revisionAnnotation: "1"}},
		{"up to date", m{"team": "blue", revisionAnnotation: "2"}, m{"team": "blue"}, 2, nil},
		{"a changed annotation", m{"team": "blue", revisionAnnotation: "2"}, m{"team": "red"}, 2, m{"team": "red", revisionAnnotation: "2"}},
		{"what the Deployment lacks stays", m{"team": "blue", revisionAnnotation: "2"}, nil, 2, nil},
		{"annotations of the Deployment's own", m{revisionAnnotation: "2"}, m{
			revisionAnnotation: "7", historyAnnotation: "1", desiredAnnotation: "1", maxAnnotation: "1",
			"deprecated.deployment.rollback.to": "1", "kubectl.kubernetes.io/last-applied-configuration": "{}",
		}, 2, nil},
		{"a rollback", m{revisionAnnotation: "2"}, nil, 4, m{revisionAnnotation: "4", historyAnnotation: "2"}},
		{"another rollback", m{revisionAnnotation: "4", historyAnnotation: "1,2"}, nil, 6, m{revisionAnnotation: "6", historyAnnotation: "1,2,4"}},
		{"after an empty revision", m{revisionAnnotation: ""}, nil, 4, m{revisionAnnotation: "4", historyAnnotation: ""}},
		{"an odd history", m{revisionAnnotation: "1", historyAnnotation: ",5"}, nil, 4, m{revisionAnnotation: "4", historyAnnotation: "1"}},
		{"a revision never falls", m{revisionAnnotation: "9"}, nil, 4, nil},
		{"an unreadable revision", m{revisionAnnotation: "nine"}, m{"team": "blue"}, 4, nil},
	} {
		before := maps.Clone(c.have)
		got, changed := annotated(c.have, c.deployment, c.next)
		want := c.want
		if want == nil {
			want = c.have
		}
		if !maps.Equal(got, want) || changed != (c.want != nil) {
			t.Errorf("%s: %v, changed %v; want %v", c.name, got, changed, want)
		}
		if !maps.Equal(c.have, before) {
			t.Errorf("%s: the map given was changed", c.name)
		}
	}
}

func TestHistoryStaysWithinItsLimit(t *testing.T) {
	long := strings.Repeat("1000,", 399) + "1000" // 1999 characters
	got := lengthened(long, "2000")
	if len(got) > historyLimit || !strings.HasSuffix(got, ",1000,2000") {
		t.Errorf("%d characters, ending in %s", len(got), got[len(got)-20:])
	}
	if want := long[len("1000,"):] + ",2000"; got != want {
		t.Error("more than the oldest entry is gone")
	}
	if got := lengthened(strings.Repeat("9", historyLimit), "12"); got != "12" {
		t.Errorf("a history of one endless entry became %q", got)
	}
}

func TestSized(t *testing.T) {
	have := map[string]string{"a": "b", desiredAnnotation: "3", maxAnnotation: "4"}
	if got, changed := sized(have, bounds{desired: 3, surge: 1}); changed || !maps.Equal(got, have) {
		t.Errorf("up to date, but %v", got)
	}
	got, changed := sized(have, bounds{desired: 3, surge: 2})
	if !changed || got[maxAnnotation] != "5" || got["a"] != "b" || have[maxAnnotation] != "4" {
		t.Errorf("got %v from %v", got, have)
	}
}

func TestPlanTrim(t *testing.T) {
	busy, unseen, going := revised("b", "2"), revised("c", "3"), revised("a", "1")
	*busy.Spec.Replicas = 1
	unseen.Generation = 2
	going.DeletionTimestamp = &going.CreationTimestamp
	draining := revised("b", "2")
	draining.Status.Replicas = 1
	for _, c := range []struct {
		name  string
		limit *int32
		old   []*appsv1.ReplicaSet
		want  string
	}{
		{"no limit", nil, []*appsv1.ReplicaSet{revised("a", "1")}, ""},
		{"the limit that means none", new(int32(1<<31 - 1)), []*appsv1.ReplicaSet{revised("a", "1")}, ""},
		{"within the limit", new(int32(2)), []*appsv1.ReplicaSet{revised("a", "1"), revised("b", "2")}, ""},
		{"lowest revisions first", new(int32(1)), []*appsv1.ReplicaSet{revised("a", "3"), revised("b", "1"), revised("c", "2")}, "b c"},
		{"then oldest", new(int32(1)), []*appsv1.ReplicaSet{revised("b", "1"), revised("a", "1")}, "a"},
		{"the oldest if a revision is no number", new(int32(1)), []*appsv1.ReplicaSet{revised("b", "x"), revised("a", "2")}, "a"},
		{"none kept", new(int32(0)), []*appsv1.ReplicaSet{revised("a", "1"), revised("b", "2")}, "a b"},
		{"what is in use has to wait, and the next does not go for it", new(int32(1)), []*appsv1.ReplicaSet{busy, revised("c", "3")}, ""},
		{"what has not drained too", new(int32(1)), []*appsv1.ReplicaSet{draining, revised("c", "3")}, ""},
		{"what its controller has not seen too", new(int32(0)), []*appsv1.ReplicaSet{unseen}, ""},
		{"what is going does not count", new(int32(1)), []*appsv1.ReplicaSet{going, revised("b", "2")}, ""},
	} {
		var names []string
		for _, rs := range planTrim(c.limit, c.old) {
			names = append(names, rs.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%s: deletes %q, want %q", c.name, got, c.want)
		}
	}
}
