package garbagecollector

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// TestDependentsThatAreNotListedYetAreReleasedToo: an owner that is deleted without its dependents waits for those of a kind
// that is about to be listed, and not for ever for those of one that cannot be.
func TestDependentsThatAreNotListedYetAreReleasedToo(t *testing.T) {
	for name, tc := range map[string]struct {
		broken time.Duration // how long the kind cannot be listed
		freed  time.Duration // when the owner is gone at the latest
		kept   bool          // the dependent, with no owner
	}{
		"for a moment": {5 * time.Second, resyncPeriod, true},
		"for long":     {time.Hour, 3 * resyncPeriod, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owner := configMap("owner")
				l := &lab{API: kittest.New(t, owner), t: t, o: &options{enabled: true, workers: 20}}
				l.start()
				var broken atomic.Bool
				broken.Store(true)
				l.React(func(r *kittest.Request) *kittest.Reaction {
					if broken.Load() && r.Resource.Resource == "widgets" && (r.Verb == "list" || r.Verb == "watch") {
						return kittest.Refuse(http.StatusInternalServerError, "no conversion")
					}
					return nil
				})
				l.AddKind(widgetKind, "widgets", true)
				child := widget("child", by(owner))
				l.add(child)
				l.Pass(resyncWait) // it is watched from now on
				l.deleteIn(metav1.DeletePropagationOrphan, owner)
				l.Pass(min(tc.broken, 5*time.Second))
				if tc.kept {
					l.kept(owner, child)
					broken.Store(false)
				}
				l.Pass(tc.freed)
				l.gone(owner)
				if tc.kept {
					l.kept(child)
					if owners := l.owners(child); owners != "" {
						t.Errorf("it is still owned by %s", owners)
					}
				}
			})
		})
	}
}

// TestDependentsThatNoWatchHasShownYetAreReleasedToo: a watch may be behind when the owner is deleted without its dependents.
func TestDependentsThatNoWatchHasShownYetAreReleasedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owner := configMap("owner")
		l := newLab(t, owner)
		first, late := pod("first", by(owner)), pod("late", by(owner))
		l.add(first)
		l.start()
		pods := corev1.SchemeGroupVersion.WithKind("Pod")
		l.DelayWatch(pods, 3*time.Second)
		l.add(late)
		l.deleteIn(metav1.DeletePropagationOrphan, owner)
		l.Pass(10 * time.Second)
		l.gone(owner)
		l.kept(first, late)
		if owners := l.owners(first) + l.owners(late); owners != "" {
			t.Errorf("they are still owned by %s", owners)
		}
		l.noErrors()
	})
}
