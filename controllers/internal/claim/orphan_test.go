package claim

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestOrphaned(t *testing.T) {
	pod := func(uid types.UID, label string, owned, deleted bool) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: uid, Labels: map[string]string{"app": label}}}
		if owned {
			p.OwnerReferences = []metav1.OwnerReference{{UID: "owner", Controller: new(true)}}
		}
		if deleted {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	orphan, owned := pod("1", "web", false, false), pod("1", "web", true, false)
	for name, c := range map[string]struct {
		old, new *corev1.Pod
		want     bool
	}{
		"an orphan that was created":     {nil, orphan, true},
		"one that was deleted":           {orphan, nil, false},
		"one that lost its controller":   {owned, orphan, true},
		"one that got a controller":      {orphan, owned, false},
		"one with new labels":            {orphan, pod("1", "db", false, false), true},
		"one that stays as it is":        {orphan, orphan, false},
		"a namesake":                     {orphan, pod("2", "web", false, false), true},
		"one that is being deleted":      {owned, pod("1", "web", false, true), false},
		"one created with a controller":  {nil, owned, false},
		"new labels with a controller":   {owned, pod("1", "db", true, false), false},
		"a namesake that has controller": {orphan, pod("2", "web", true, false), false},
	} {
		if got := Orphaned(c.old, c.new); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
