package podctl

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

type change func(*corev1.Pod)

// rankPod is a running and ready pod on a node of its own, an hour old.
func rankPod(name string, changes ...change) *corev1.Pod {
	p := readyFor(time.Hour)
	p.Name, p.UID = name, types.UID(name)
	p.Spec.NodeName = "node-of-" + name
	p.CreationTimestamp = ago(time.Hour)
	for _, c := range changes {
		c(p)
	}
	return p
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }
func unready(p *corev1.Pod)     { p.Status.Conditions[1].Status = corev1.ConditionFalse }
func undatedReady(p *corev1.Pod) {
	p.Status.Conditions[1].LastTransitionTime.Time = time.Time{}
}
func undatedCreation(p *corev1.Pod) { p.CreationTimestamp.Time = time.Time{} }

func phase(ph corev1.PodPhase) change { return func(p *corev1.Pod) { p.Status.Phase = ph } }
func on(node string) change           { return func(p *corev1.Pod) { p.Spec.NodeName = node } }
func costs(c string) change {
	return func(p *corev1.Pod) { p.Annotations = map[string]string{corev1.PodDeletionCost: c} }
}
func readySince(d time.Duration) change {
	return func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = ago(d) }
}
func aged(d time.Duration) change { return func(p *corev1.Pod) { p.CreationTimestamp = ago(d) } }
func restarts(n int32) change {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a"}, {Name: "b", RestartCount: n}}
	}
}
func initRestarts(n int32, sidecar bool) change {
	return func(p *corev1.Pod) {
		c := corev1.Container{Name: "init"}
		if sidecar {
			always := corev1.ContainerRestartPolicyAlways
			c.RestartPolicy = &always
		}
		p.Spec.InitContainers = []corev1.Container{c}
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", RestartCount: n}}
	}
}

// Each pair differs in the rule named and, the other way round, in all later rules that it can.
func TestRankingRules(t *testing.T) {
	fuller := func(node string) int { return map[string]int{"full": 3, "half": 2}[node] }
	full := Ranking{Cost: true, OnNode: fuller, Now: now}
	exact := Ranking{Cost: true, OnNode: fuller}
	for _, c := range []struct {
		name          string
		by            Ranking
		first, second *corev1.Pod
	}{
		{"unscheduled before scheduled", full, rankPod("z", unscheduled, costs("9")), rankPod("a", phase(corev1.PodPending), costs("-9"))},
		{"pending before running", full, rankPod("z", phase(corev1.PodPending)), rankPod("a", unready)},
		{"pending before unknown", full, rankPod("z", phase(corev1.PodPending)), rankPod("a", phase(corev1.PodUnknown))},
		{"unknown before running", full, rankPod("z", phase(corev1.PodUnknown)), rankPod("a", unready)},
		{"not ready before ready", full, rankPod("z", unready, costs("9")), rankPod("a", costs("-9"))},
		{"lower cost first", full, rankPod("z", costs("-5")), rankPod("a", on("full"))},
		{"higher cost last", full, rankPod("z", on("half")), rankPod("a", costs("5"), on("full"))},
		{"a cost that is no number is 0", full, rankPod("z", costs("-1")), rankPod("a", costs("+7"))},
		{"fuller node first", full, rankPod("z", on("full")), rankPod("a", on("half"), readySince(time.Minute))},
		{"ready shorter first", full, rankPod("z", readySince(time.Minute)), rankPod("a", restarts(9), aged(time.Minute))},
		{"ready unknown since first", full, rankPod("z", undatedReady), rankPod("a", readySince(time.Second))},
		{"ready about as long: by UID", full, rankPod("a", readySince(70*time.Minute)), rankPod("z", readySince(60*time.Minute), restarts(9))},
		{"exact: ready shorter first", exact, rankPod("z", readySince(60*time.Minute)), rankPod("a", readySince(70*time.Minute))},
		{"more restarts first", full, rankPod("z", restarts(3)), rankPod("a", restarts(2), initRestarts(9, true), aged(time.Minute))},
		{"more sidecar restarts first", full, rankPod("z", initRestarts(3, true)), rankPod("a", initRestarts(2, true), aged(time.Minute))},
		{"restarts of plain init containers do not count", full, rankPod("z", aged(time.Minute)), rankPod("a", initRestarts(5, false))},
		{"younger first", full, rankPod("z", aged(time.Minute)), rankPod("a")},
		{"unknown age first", full, rankPod("z", undatedCreation), rankPod("a", aged(time.Minute))},
		{"from the future is youngest", full, rankPod("z", aged(-time.Minute)), rankPod("a", aged(time.Minute))},
		{"about as old: by UID", full, rankPod("a", aged(65*time.Minute)), rankPod("z", aged(60*time.Minute))},
		{"exact: younger first", exact, rankPod("z", aged(60*time.Minute)), rankPod("a", aged(65*time.Minute))},
		{"without cost and nodes", Ranking{Now: now}, rankPod("z", readySince(time.Minute), on("half")), rankPod("a", costs("-5"), on("full"))},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, pods := range [][]*corev1.Pod{{c.first, c.second}, {c.second, c.first}} {
				c.by.Sort(pods)
				if pods[0] != c.first {
					t.Fatalf("%s came first, want %s", pods[0].Name, c.first.Name)
				}
			}
		})
	}
}

// Scaling down one at a time must take the pods in the documented order, whatever order the cache lists them in.
func TestRankingOfSixPods(t *testing.T) {
	pods := []*corev1.Pod{
		rankPod("1-pending", phase(corev1.PodPending), unscheduled, unready),
		rankPod("2-cheap", costs("-5"), aged(240*time.Hour), readySince(240*time.Hour)),
		rankPod("3-shared-young", on("shared"), aged(2*time.Hour), readySince(2*time.Hour)),
		rankPod("4-shared-old", on("shared"), aged(90*time.Hour), readySince(90*time.Hour)),
		rankPod("5-young", aged(time.Minute), readySince(time.Minute)),
		rankPod("6-old", aged(100*time.Hour), readySince(100*time.Hour)),
	}
	want := slices.Clone(pods)
	byNode := map[string]int{}
	for _, p := range pods {
		byNode[p.Spec.NodeName]++
	}
	for range 20 {
		rand.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		Ranking{Cost: true, OnNode: func(n string) int { return byNode[n] }, Now: now}.Sort(pods)
		for i := range pods {
			if pods[i] != want[i] {
				t.Fatalf("place %d has %s, want %s", i+1, pods[i].Name, want[i].Name)
			}
		}
	}
}

func TestDeletionCost(t *testing.T) {
	for value, want := range map[string]int32{
		"": 0, "0": 0, "7": 7, "-7": -7, "2147483647": 2147483647, "-2147483648": -2147483648,
		"2147483648": 0, "+7": 0, "07": 0, "-07": -7, "7.5": 0, "x": 0, " 7": 0,
	} {
		if got := DeletionCost(rankPod("p", costs(value))); got != want {
			t.Errorf("cost %q is %d, want %d", value, got, want)
		}
	}
}

func BenchmarkSortThreeThousand(b *testing.B) {
	pods := make([]*corev1.Pod, 3000)
	for i := range pods {
		pods[i] = rankPod(string(rune('a'+i%26)), readySince(time.Duration(i)*time.Minute), restarts(int32(i%3)))
	}
	work := make([]*corev1.Pod, len(pods))
	b.ReportAllocs()
	for b.Loop() {
		copy(work, pods)
		Ranking{Cost: true, OnNode: func(string) int { return 1 }, Now: now}.Sort(work)
	}
}
