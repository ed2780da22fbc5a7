package statefulset

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// bare is a strategy without any bounds, as the server keeps it if the user gives its type and no more.
var bare = strategy(appsv1.RollingUpdateStatefulSetStrategyType)

func TestPodsThatGoAtOnceForAnUpdateComeBackUpdated(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": {bare}, "parallel": {bare, parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				set := newSet("web", 3, opts...)
				set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(0))
				c := start(t, set)
				c.podWrites()
				c.change("web", image("img:2"))
				c.Pass(time.Minute)
				want := "delete web-2, create web-2, delete web-1, create web-1, delete web-0, create web-0"
				if got := c.podWrites(); got != want || c.images() != "0:2 1:2 2:2" {
					t.Errorf("images %s: it did %s", c.images(), got)
				}
			})
		})
	}
}

func TestPodsThatNeverStartedAreReplacedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 3, bare, parallel, bad))
		c.podWrites()
		c.change("web", good, image("img:2"))
		c.Pass(time.Minute)
		got := c.podWrites() // pods of a parallel set go in any order
		if strings.Count(got, "delete") != 3 || strings.Count(got, "create") != 3 || c.images() != "0:2 1:2 2:2" {
			t.Errorf("images %s: it did %s, want three to go and three to come", c.images(), got)
		}
	})
}
