package daemonset

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

func TestEveryNodeGetsAPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(3), newSet("web"))...)
		if got := byNode(t, api); got != "n00: img:1, n01: img:1, n02: img:1" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 3, current: 3, updated: 3, unavailable: 3})
		kubelets(t, api)
		api.Settle()
		wantStatus(t, api, "web", counts{desired: 3, current: 3, ready: 3, updated: 3, available: 3})

		api.TakeWrites()
		api.Pass(time.Hour)
		api.Expect(t)
		for _, e := range api.Events() {
			if e.Reason != "SuccessfulCreate" || e.Object != "DaemonSet default/web" || !strings.HasPrefix(e.Message, "Created pod: web-") {
				t.Errorf("event %s", e)
			}
		}
	})
}

func TestThePodThatIsMade(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", func(s *appsv1.DaemonSet) {
			s.Spec.Template.Annotations = map[string]string{"a": "b"}
			s.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "n00"}
			s.Spec.Template.Spec.Affinity = requires(label(corev1.LabelHostname, corev1.NodeSelectorOpExists))
			s.Spec.Template.Spec.Affinity.PodAffinity = &corev1.PodAffinity{}
			s.Spec.Template.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = []corev1.PreferredSchedulingTerm{{Weight: 3}}
		})
		api := start(t, newNode("n00"), newNode("n01"), set)
		if got := byNode(t, api); got != "n00: img:1" {
			t.Fatalf("pods on %s", got)
		}
		pod, revision := pods(t, api)[0], revisions(t, api)[0]
		hash := revision.Labels[hashLabel]
		if revision.Name != "web-"+hash || hash == "" || revision.Revision != 1 || revision.Labels["app"] != "web" || !metav1.IsControlledBy(revision, get(t, api, "web")) {
			t.Errorf("revision %+v", revision.ObjectMeta)
		}
		if want := map[string]string{"app": "web", "controller-revision-hash": hash, "pod-template-generation": "1"}; fmt.Sprint(pod.Labels) != fmt.Sprint(want) {
			t.Errorf("labels %v, want %v", pod.Labels, want)
		}
		if pod.GenerateName != "web-" || pod.Annotations["a"] != "b" || !metav1.IsControlledBy(pod, get(t, api, "web")) || pod.Spec.NodeName != "" {
			t.Errorf("pod %+v on %q", pod.ObjectMeta, pod.Spec.NodeName)
		}
		a := pod.Spec.Affinity
		terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
		if len(terms) != 1 || len(terms[0].MatchExpressions) != 0 || fmt.Sprint(terms[0].MatchFields) != "[{metadata.name In [n00]}]" {
			t.Errorf("required affinity %+v", terms)
		}
		if a.PodAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
			t.Errorf("the rest of the affinity is lost: %+v", a)
		}
		if n := len(pod.Spec.Tolerations); n != 6 {
			t.Errorf("%d tolerations", n)
		}
	})
}

func TestNodesThatComeChangeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := newSet("web", func(s *appsv1.DaemonSet) { s.Spec.Template.Spec.NodeSelector = map[string]string{"role": "web"} })
		api := start(t, newNode("n00"), set)
		wantStatus(t, api, "web", counts{})
		changeNode(t, api, "n00", func(n *corev1.Node) { n.Labels = map[string]string{"role": "web"} })
		api.Settle()
		kubelets(t, api)
		api.Settle()
		wantStatus(t, api, "web", counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1})

		changeNode(t, api, "n00", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)} })
		api.Settle()
		wantStatus(t, api, "web", counts{misscheduled: 1})
		changeNode(t, api, "n00", func(n *corev1.Node) { n.Spec.Taints = nil })
		api.Settle()
		wantStatus(t, api, "web", counts{desired: 1, current: 1, ready: 1, updated: 1, available: 1})

		changeNode(t, api, "n00", func(n *corev1.Node) { n.Labels = nil })
		api.Settle()
		if got := byNode(t, api); got != "n00: -img:1" {
			t.Errorf("pods on %s", got)
		}
		kubelets(t, api)
		api.Settle()
		wantStatus(t, api, "web", counts{})

		changeNode(t, api, "n00", func(n *corev1.Node) { n.Labels = map[string]string{"role": "web"} })
		api.Settle()
		api.Remove(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n00"}})
		api.Settle()
		if got := byNode(t, api); got != "" {
			t.Errorf("a pod waits for a node that is gone: %s", got)
		}
		wantStatus(t, api, "web", counts{})
	})
}

func TestARollingUpdateKeepsToItsBound(t *testing.T) {
	for _, limit := range []int{1, 3} {
		synctest.Test(t, func(t *testing.T) {
			api := start(t, append(newNodes(7), newSet("web", rolling(fmt.Sprint(limit), "")))...)
			rolledOut(t, api, nil)
			change(t, api, "web", image("img:2"))
			api.Settle()
			rounds := rolledOut(t, api, func() {
				available := 0
				for _, p := range pods(t, api) {
					if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
						available++
					}
				}
				if available < 7-limit {
					t.Errorf("only %d pods are available", available)
				}
				if multiple(t, api) {
					t.Errorf("a node has two pods: %s", byNode(t, api))
				}
			})
			if strings.Contains(byNode(t, api), "img:1") {
				t.Errorf("pods on %s", byNode(t, api))
			}
			wantStatus(t, api, "web", counts{desired: 7, current: 7, ready: 7, updated: 7, available: 7})
			// Each node takes two rounds, one to stop and one to start.
			if most := 2*((7+limit-1)/limit) + 2; rounds > most {
				t.Errorf("took %d rounds, want at most %d", rounds, most)
			}
			if n := len(revisions(t, api)); n != 2 {
				t.Errorf("%d revisions", n)
			}
		})
	}
}

// multiple reports whether a node has more than one pod that is not being deleted.
func multiple(t *testing.T, api *kittest.API) bool {
	t.Helper()
	on := map[string]int{}
	for _, p := range pods(t, api) {
		if p.DeletionTimestamp == nil {
			if on[nodeOf(p)]++; on[nodeOf(p)] > 1 {
				return true
			}
		}
	}
	return false
}

func TestASurgeNeverTakesANodeItsPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(5), newSet("web", rolling("0", "2")))...)
		rolledOut(t, api, nil)
		change(t, api, "web", image("img:2"))
		api.Settle()
		if got := byNode(t, api); got != "n00: img:1 img:2, n01: img:1 img:2, n02: img:1, n03: img:1, n04: img:1" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 5, current: 5, ready: 5, available: 5})
		rolledOut(t, api, func() {
			ready, all := map[string]bool{}, pods(t, api)
			for _, p := range all {
				ready[nodeOf(p)] = ready[nodeOf(p)] || p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning
			}
			for node, ok := range ready {
				if !ok {
					t.Errorf("%s is without a running pod", node)
				}
			}
		})
		if got := byNode(t, api); got != "n00: img:2, n01: img:2, n02: img:2, n03: img:2, n04: img:2" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 5, current: 5, ready: 5, updated: 5, available: 5})
	})
}

func TestOnDeleteWaitsForSomebodyToDelete(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web", onDelete))...)
		rolledOut(t, api, nil)
		change(t, api, "web", image("img:2"))
		api.Settle()
		rolledOut(t, api, nil)
		if got := byNode(t, api); got != "n00: img:1, n01: img:1" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, available: 2})
		api.Delete(t, podOn(t, api, "n01"))
		rolledOut(t, api, nil)
		if got := byNode(t, api); got != "n00: img:1, n01: img:2" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 1, available: 2})
	})
}

func TestAPodIsAvailableAtTheSecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web", minReady(30)))...)
		kubelets(t, api)
		ready := time.Now().Truncate(time.Second) // as the API keeps times
		api.Settle()
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, unavailable: 2})
		api.TakeWrites()
		api.Pass(time.Until(ready.Add(30*time.Second - 50*time.Millisecond)))
		api.Expect(t)
		api.Pass(100 * time.Millisecond)
		wantStatus(t, api, "web", counts{desired: 2, current: 2, ready: 2, updated: 2, available: 2})
		api.Expect(t, "update apps/v1/daemonsets/status default/web")
	})
}

func TestTheStatusIsWrittenWhileAQuotaBlocksPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(40), newSet("web"))...)
		attempts := newTally()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb != "create" || r.Resource.Resource != "pods" {
				return nil
			}
			if attempts.add(""); len(pods(t, api)) >= 3 {
				return kittest.Refuse(http.StatusForbidden, "exceeded quota")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(time.Minute)
		wantStatus(t, api, "web", counts{desired: 40, current: 3, updated: 3, unavailable: 40})
		if n := attempts.of(""); n > 30 {
			t.Errorf("%d attempts in a minute", n)
		}
		if n := len(events(api, "FailedCreate")); n == 0 || n > 30 {
			t.Errorf("%d events of failure", n)
		}
		kubelets(t, api)
		changeNode(t, api, "n39", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)} })
		api.Pass(time.Minute)
		wantStatus(t, api, "web", counts{desired: 39, current: 3, ready: 3, updated: 3, available: 3, unavailable: 36})
		api.Unreact()
		api.Pass(2 * time.Minute)
		wantStatus(t, api, "web", counts{desired: 39, current: 39, ready: 3, updated: 39, available: 3, unavailable: 36})
	})
}

func TestAPodIsAvailableOnTimeWhileAQuotaBlocksOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, append(newNodes(2), newSet("web", minReady(30)))...)
		api.React(func(r *kittest.Request) *kittest.Reaction {
			if r.Verb == "create" && r.Resource.Resource == "pods" && len(pods(t, api)) >= 1 {
				return kittest.Refuse(http.StatusForbidden, "exceeded quota")
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Pass(2 * time.Minute) // the set is tried again once a minute
		kubelets(t, api)
		api.Pass(30500 * time.Millisecond)
		wantStatus(t, api, "web", counts{desired: 2, current: 1, ready: 1, updated: 1, available: 1, unavailable: 1})
	})
}

func TestAtMost250PodsAreMadeAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := kittest.New(t, newSet("web", rolling("100%", "")))
		for i := range 600 {
			api.Create(t, newNode(fmt.Sprintf("n%03d", i)))
		}
		made, most := newTally(), newTally()
		api.React(func(r *kittest.Request) *kittest.Reaction {
			switch {
			case r.Resource.Resource == "pods":
				if n := made.add(r.Verb); n > most.of(r.Verb) {
					most.add(r.Verb)
				}
			case r.Resource.Resource == "daemonsets" && r.Verb == "update":
				made.reset()
			}
			return nil
		})
		api.Run(t, Descriptor())
		api.Settle()
		if n := len(pods(t, api)); n != 600 || most.of("create") != 250 {
			t.Errorf("%d pods, at most %d between two looks; want 600 and 250", n, most.of("create"))
		}
		change(t, api, "web", image("img:2"))
		api.Settle()
		if most.of("create") != 250 || most.of("delete") != 250 {
			t.Errorf("at most %d pods were made and %d deleted between two looks, want 250", most.of("create"), most.of("delete"))
		}
		wantStatus(t, api, "web", counts{desired: 600, current: 600, updated: 600, unavailable: 600})
	})
}

func TestNothingIsDoneForADaemonSetThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, append(newNodes(2), newSet("web", func(s *appsv1.DaemonSet) { s.Finalizers = []string{"x/y"} }))...)
		api.Delete(t, get(t, api, "web"))
		api.Settle()
		api.TakeWrites()
		api.Remove(t, podOn(t, api, "n00"))
		api.Create(t, newNode("n09"))
		api.Settle()
		api.Expect(t)
	})
}

func TestASelectorOfEverythingIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := start(t, newNode("n00"), newSet("web", func(s *appsv1.DaemonSet) { s.Spec.Selector = &metav1.LabelSelector{} }))
		api.Expect(t)
		if e := events(api, "SelectingAll"); len(e) == 0 || e[0].Type != "Warning" || e[0].Message != "This daemon set is selecting all pods. A non-empty selector is required." {
			t.Errorf("events %v", api.Events())
		}
	})
}

func TestNothingIsMadeInANamespaceThatGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{"kubernetes"}}}
		api := start(t, ns, newNode("n00"), newSet("web"))
		api.Delete(t, ns)
		api.Remove(t, podOn(t, api, "n00"))
		api.Pass(time.Minute)
		if got := byNode(t, api); got != "" {
			t.Errorf("pods on %s", got)
		}
		wantStatus(t, api, "web", counts{desired: 1, unavailable: 1})
		if e := events(api, "FailedCreate"); len(e) != 0 {
			t.Errorf("events %v", e)
		}
	})
}
