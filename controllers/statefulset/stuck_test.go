package statefulset

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// refuse has the server refuse the controller's calls of the form "verb resource name".
func (c *cluster) refuse(calls ...string) {
	c.React(func(r *kittest.Request) *kittest.Reaction {
		name := r.Name
		if name == "" && r.Object != nil {
			name = r.Object.GetName()
		}
		for _, call := range calls {
			if r.User == Name && call == r.Verb+" "+r.Resource.Resource+" "+name {
				return kittest.Refuse(http.StatusForbidden, "denied by a policy")
			}
		}
		return nil
	})
}

// keepVolumes has the server refuse to change the volumes of pods, as a real one does.
func (c *cluster) keepVolumes() {
	c.React(func(r *kittest.Request) *kittest.Reaction {
		if r.Verb == "patch" && r.Resource.Resource == "pods" && strings.Contains(string(r.Patch), `"volumes"`) {
			return kittest.Refuse(http.StatusUnprocessableEntity, "pod updates may not change fields other than the image")
		}
		return nil
	})
}

// replaced returns a cluster in which a set of three was deleted without its pods and created again.
func replaced(t *testing.T, opts ...setOption) *cluster {
	t.Helper()
	c := newCluster(t)
	former := newSet("web", 3)
	settled(c, former, dataOf(t, former))
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		c.changePod(name, func(p *corev1.Pod) { p.OwnerReferences = nil })
	}
	c.Remove(t, former)
	for _, revision := range c.revisions() {
		c.Remove(t, revision)
	}
	c.Create(t, newSet("web", 3, opts...))
	c.keepVolumes()
	c.Run(t, c.kubelets.init)
	c.Run(t, Descriptor())
	return c
}

// kubernetes/kubernetes#141876: upstream tries to change the volumes again and again, and does nothing else.
func TestPodsThatLackAVolumeAreReplacedByTheUpdate(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := replaced(t, append(opts, storing("data"), image("img:2"))...)
				c.Pass(10 * time.Minute)
				if got := c.images(); got != "0:2 1:2 2:2" || c.numbers("web") != [5]int32{3, 3, 3, 3, 3} {
					t.Errorf("images %s, status %v", got, c.numbers("web"))
				}
				if got := c.events("FailedUpdate"); len(got) == 0 || len(got) > 30 {
					t.Errorf("%d events of volumes that cannot be changed", len(got))
				}
			})
		})
	}
}

// kubernetes/kubernetes#113880
func TestAPodThatLacksAVolumeHoldsNoOtherUp(t *testing.T) {
	for name, opts := range map[string][]setOption{"ordered": nil, "parallel": {parallel}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := replaced(t, append(opts, storing("data"), strategy(appsv1.OnDeleteStatefulSetStrategyType))...)
				c.Pass(time.Minute)
				before := c.pod("web-0").UID
				c.Delete(t, c.pod("web-1"))
				c.change("web", replicas(4))
				c.Pass(10 * time.Minute)
				if got := c.pods(); got != "web-0 web-1 web-2 web-3" || c.numbers("web")[1] != 4 {
					t.Errorf("pods %s", got)
				}
				c.change("web", replicas(2))
				c.Pass(10 * time.Minute)
				if got := c.pods(); got != "web-0 web-1" || c.pod("web-0").UID != before {
					t.Errorf("pods %s after scaling down", got)
				}
				if got := c.events("FailedUpdate"); len(got) == 0 || len(got) > 100 {
					t.Errorf("%d events of volumes that cannot be changed", len(got))
				}
			})
		})
	}
}

// kubernetes/kubernetes#111778
func TestANameThatIsTakenHoldsNoOtherPodOfAParallelSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		former := loose("web-1", map[string]string{"app": "web"})
		former.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(&metav1.ObjectMeta{Name: "web", UID: "former"}, setKind)}
		c := start(t, newSet("web", 5, parallel), former)
		if got := c.pods(); got != "web-0 web-1 web-2 web-3 web-4" || c.numbers("web")[0] != 4 {
			t.Errorf("pods %s, status %v", got, c.numbers("web"))
		}
		c.Remove(t, former)
		c.Pass(time.Second)
		if got := c.numbers("web"); got[0] != 5 {
			t.Errorf("status %v once the name is free", got)
		}
	})
}

func TestARefusedDeletionHoldsNoOtherPodOfAParallelSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 6, parallel, storing("data"), retention(keep, drop)))
		c.refuse("delete pods web-5", "update persistentvolumeclaims data-web-4")
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		c.change("web", replicas(2))
		c.Pass(10 * time.Minute)
		if got := c.pods(); got != "web-0 web-1 web-4 web-5" {
			t.Errorf("pods %s", got)
		}
		if got := c.owners("data-web-4"); got != "" {
			t.Errorf("the claim that nobody may change is owned by %s", got)
		}
	})
}

func TestAFinishedPodThatStaysHoldsNoOtherPodOfAParallelSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 4, parallel))
		c.refuse("delete pods web-0")
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		c.changePod("web-0", func(p *corev1.Pod) { p.Status.Phase, p.Status.Conditions = corev1.PodFailed, nil })
		c.Remove(t, c.pod("web-2"))
		c.Pass(time.Minute)
		if got := c.pods(); got != "web-0 web-1 web-2 web-3" {
			t.Errorf("pods %s", got)
		}
	})
}

func TestAParallelSetIsUpdatedThoughPodsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 4, parallel, rolling("2", 0)))
		c.refuse("create pods web-3")
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		c.change("web", image("img:2"))
		c.Pass(10 * time.Minute)
		if got := c.images(); got != "0:2 1:2 2:2" {
			t.Errorf("images %s", got)
		}
	})
}

func TestAPodThatIsStuckDoesNotLiftThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", 10, parallel, storing("data"), strategy(appsv1.OnDeleteStatefulSetStrategyType))
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64)
		c := &cluster{API: kittest.New(t, set, loose("web-0", map[string]string{"app": "web"})), t: t}
		c.keepVolumes()
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Subresource == "status" && r.Name == "web-0" {
				return kittest.Refuse(http.StatusForbidden, "this one does not fail")
			}
			return nil
		})
		c.Run(t, refusing)
		c.Run(t, Descriptor())
		time.Sleep(10 * time.Second)
		if got := strings.Count(c.podWrites(), "create"); got < 100 || got > 260 {
			t.Errorf("%d pods were made in 10 s", got)
		}
	})
}

// kubernetes/kubernetes#85690 is of revisions that were kept when a pod could not be created.
func TestHistoryIsTruncatedThoughANewRevisionIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 1))
		c.change("web", image("img:2"))
		c.Pass(time.Minute)
		c.change("web", image("img:3"))
		c.Pass(time.Minute)
		var refused atomic.Int32
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "controllerrevisions" && len(kittest.List[appsv1.ControllerRevision](t, c.API, "default")) > 1 {
				refused.Add(1)
				return kittest.Refuse(http.StatusForbidden, "exceeded quota: count/controllerrevisions.apps")
			}
			return nil
		})
		c.change("web", image("img:4"), func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = new(int32(0)) })
		c.Pass(10 * time.Minute)
		if got := c.images(); got != "0:4" || refused.Load() == 0 {
			t.Errorf("images %s, %d refusals", got, refused.Load())
		}
	})
}

func TestAPodThatGoesWhileItIsRepairedIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := start(t, newSet("web", 2))
		before := c.pod("web-1").UID
		c.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "patch" && r.Name == "web-1" && c.pod("web-1").UID == before {
				c.Remove(t, c.pod("web-1"))
			}
			return nil
		})
		c.changePod("web-1", func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) })
		c.Pass(time.Minute)
		if got := c.events("FailedUpdate"); len(got) > 0 || c.pod("web-1").UID == before || c.numbers("web")[1] != 2 {
			t.Errorf("pods %s, events %q", c.pods(), got)
		}
	})
}

func TestAPodThatCannotBeReleasedHoldsNoOtherOfAParallelSetUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, newSet("web", 2, parallel))
		c.refuse("patch pods web-0")
		c.Run(t, c.kubelets.init)
		c.Run(t, Descriptor())
		c.Pass(time.Minute)
		c.changePod("web-0", func(p *corev1.Pod) { p.Labels["app"] = "debug" })
		c.Pass(time.Minute)
		c.change("web", replicas(4))
		c.Pass(time.Minute)
		if got := c.numbers("web"); c.pods() != "web-0 web-1 web-2 web-3" || got[1] != 3 {
			t.Errorf("pods %s, status %v", c.pods(), got)
		}
	})
}
