package daemonset

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"orrery/kit/kittest"
)

// Bugs that have occurred in practice, by their number in the Kubernetes issue tracker.

// kubernetes/kubernetes#65240 and #51884
func TestAPodThatFailsIsReplacedLessAndLessOften(t *testing.T) {
	for name, opt := range map[string]setOption{"replacing": rolling("1", ""), "surging": rolling("0", "1")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := start(t, append(newNodes(3), newSet("web", opt))...)
				kubelets(t, api)
				api.Settle()
				others := podOn(t, api, "n00").UID
				begin := time.Now()
				var at []time.Duration
				for seen := map[string]bool{}; time.Since(begin) < 10*time.Minute; api.Pass(250 * time.Millisecond) {
					for _, p := range pods(t, api) {
						switch {
						case nodeOf(p) != "n01":
						case p.DeletionTimestamp != nil:
							api.Remove(t, p)
						case !seen[p.Name]:
							seen[p.Name] = true
							at = append(at, time.Since(begin))
							changePod(t, api, p, ended(corev1.PodFailed))
						}
					}
				}
				// The first is deleted at once; the next ones after 1, 2, 4 seconds and so on.
				if n := len(at); n < 9 || n > 12 {
					t.Fatalf("%d pods in 10 minutes, at %v", n, at)
				}
				for i, want := 2, time.Second; i < len(at); i, want = i+1, 2*want {
					if gap := at[i] - at[i-1]; gap < want-500*time.Millisecond || gap > want+time.Second {
						t.Errorf("pod %d came %v after the one before, want %v", i, gap, want)
					}
				}
				e := events(api, "FailedDaemonPod")
				if len(e) != len(at)-1 && len(e) != len(at) || e[0].Type != "Warning" || !strings.HasPrefix(e[0].Message, "Found failed daemon pod default/web-") ||
					!strings.HasSuffix(e[0].Message, " on node n01, will try to kill it") {
					t.Errorf("%d events for %d failures, the first %v", len(e), len(at), e[0])
				}
				if podOn(t, api, "n00").UID != others {
					t.Error("the pod of another node was replaced")
				}
			})
		})
	}
}

// kubernetes/kubernetes#117073
func TestAPodThatEndsIsReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		old := podOn(t, api, "n01")
		changePod(t, api, old, ended(corev1.PodSucceeded))
		api.Settle()
		kubelets(t, api)
		api.Settle()
		if now := podOn(t, api, "n01"); now.UID == old.UID || now.Status.Phase != corev1.PodRunning {
			t.Errorf("pod %s is %s", now.Name, now.Status.Phase)
		}
		e := events(api, "SucceededDaemonPod")
		if want := fmt.Sprintf("Found succeeded daemon pod default/%s on node n01, will try to delete it", old.Name); len(e) != 1 || e[0].Type != "Normal" || e[0].Message != want {
			t.Errorf("events %v, want %q", e, want)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2})
	})
}

// kubernetes/kubernetes#70458
func TestTheOrderOfAffinityValuesMeansNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", func(s *appsv1.DaemonSet) {
			s.Spec.Template.Spec.Affinity = requires(label("foo", corev1.NodeSelectorOpIn, "bar2", "bar1"))
		})
		api := kittest.New(t, append(newNodes(4), set)...)
		for i, value := range []string{"bar1", "bar2", "bar3", "bar1"} {
			changeNode(t, api, fmt.Sprintf("n%02d", i), func(n *corev1.Node) { n.Labels["foo"] = value })
		}
		api.Run(t, Descriptor())
		api.Settle()
		rolledOut(t, api, nil)
		api.TakeWrites()
		for i := range 4 {
			changeNode(t, api, fmt.Sprintf("n%02d", i), func(n *corev1.Node) { n.Labels["touched"] = "x" })
		}
		api.Pass(time.Hour)
		api.Expect(t)
		if got := byNode(t, api); got != "n00: img:1, n01: img:1, n03: img:1" || len(revisions(t, api)) != 1 {
			t.Errorf("pods on %s, %d revisions", got, len(revisions(t, api)))
		}
	})
}

// kubernetes/kubernetes#134937
func TestALaggingWatchCausesNoSecondPod(t *testing.T) {
	for _, gate := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			api := kittest.New(t, newNodes(20)...)
			api.SetGate(string(staleConsistency), gate)
			cc := api.Context(Name, rules()...)
			skips := registered(t, &cc)
			o := &options{workers: 2}
			api.RunIn(t, cc, o.init)
			api.Settle()
			api.DelayWatch(podKind, 10*time.Second)
			api.Create(t, newSet("web"))
			api.Pass(2 * time.Second)
			change(t, api, "web", func(s *appsv1.DaemonSet) { s.Spec.MinReadySeconds = 1 })
			changeNode(t, api, "n03", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)} })
			api.Pass(2 * time.Second)
			changeNode(t, api, "n03", func(n *corev1.Node) { n.Spec.Taints = nil })
			api.Pass(time.Minute)
			if n := count(api.Writes(), "create v1/pods"); n != 20 || len(pods(t, api)) != 20 {
				t.Errorf("%d pods after %d were made, want 20", len(pods(t, api)), n)
			}
			wantStatus(t, api, "web", counts{desired: 20, current: 20, updated: 20, unavailable: 20})
			if got := skips("pods"); (got > 0) != gate {
				t.Errorf("with the gate %v, %v reconciles were counted as put off", gate, got)
			}
		})
	}
}

// kubernetes/kubernetes#73011
func TestAnUnreachableNodeDoesNotHoldAnUpdateUp(t *testing.T) {
	for _, unreachable := range []string{"n00", "n02"} {
		synctest.Test(t, func(t *testing.T) {
			api := start(t, append(newNodes(3), newSet("web"))...)
			kubelets(t, api)
			api.Settle()
			changePod(t, api, podOn(t, api, unreachable), unready)
			changeNode(t, api, unreachable, func(n *corev1.Node) {
				n.Spec.Taints = []corev1.Taint{taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)}
			})
			api.Settle()
			before := pods(t, api)
			change(t, api, "web", image("img:2"))
			api.Settle()
			// The unavailable pod uses up the bound of one: it is deleted, and no other.
			for _, p := range before {
				gone := !api.Get(t, p) || p.DeletionTimestamp != nil
				if gone != (nodeOf(p) == unreachable) {
					t.Errorf("pod of %s: deleted is %v while %s is unreachable", nodeOf(p), gone, unreachable)
				}
			}
			for range 3 {
				kubelets(t, api, unreachable)
				api.Settle()
			}
			if got := byNode(t, api); strings.Count(got, "img:2") != 0 {
				t.Errorf("updated beyond the bound: %s", got)
			}
			change(t, api, "web", rolling("2", ""))
			api.Settle()
			for range 8 {
				kubelets(t, api, unreachable)
				api.Settle()
			}
			if got := byNode(t, api); strings.Count(got, ": img:2") != 2 {
				t.Errorf("the reachable nodes are not updated: %s", got)
			}
		})
	}
}

// kubernetes/kubernetes#134773: the same trap as with StatefulSets.
func TestRevisionsOfAnOlderVersionAreFoundAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web"))...)
		kubelets(t, api)
		api.Settle()
		old := revisions(t, api)[0]
		old.Data.Raw = []byte(strings.Replace(string(old.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1))
		if !strings.Contains(string(old.Data.Raw), "creationTimestamp") {
			t.Fatalf("data %s", old.Data.Raw)
		}
		api.Update(t, old)
		api.Settle()
		api.TakeWrites()
		change(t, api, "web", func(s *appsv1.DaemonSet) { s.Labels = map[string]string{"touched": "x"} })
		api.Pass(time.Hour)
		api.Expect(t)
	})
}

// An implementation that took the two templates for different ones has carried out half of an update.
func TestPodsOfAnyRevisionThatMeansTheSameAreUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(4), newSet("web", rolling("4", "")))...)
		kubelets(t, api)
		api.Settle()
		first := revisions(t, api)[0]
		next := first.DeepCopy()
		next.UID, next.ResourceVersion, next.Name, next.Revision = "", "", "web-later", 2
		next.Labels[hashLabel] = "later"
		first.Data.Raw = []byte(strings.Replace(string(first.Data.Raw), `"metadata":{`, `"metadata":{"creationTimestamp":null,`, 1))
		api.Update(t, first)
		api.Create(t, next)
		api.Settle()
		changePod(t, api, podOn(t, api, "n02"), func(p *corev1.Pod) { p.Labels[hashLabel] = "later" })
		api.Settle()
		for _, p := range pods(t, api) {
			changePod(t, api, p, func(p *corev1.Pod) { delete(p.Labels, generationLabel) })
		}
		api.TakeWrites()
		api.Pass(time.Hour)
		if w := slices.DeleteFunc(api.TakeWrites(), func(w string) bool { return strings.HasPrefix(w, "update apps/v1/daemonsets/status") }); len(w) > 0 {
			t.Errorf("writes %q", w)
		}
		wantStatus(t, api, "web", counts{desired: 4, current: 4, ready: 4, updated: 4, available: 4})
	})
}
