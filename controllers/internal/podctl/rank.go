package podctl

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Ranking says which pods are to be deleted first. The zero value ranks by the pods' own state alone, with times
// compared exactly.
type Ranking struct {
	// Cost makes the annotation controller.kubernetes.io/pod-deletion-cost count.
	Cost bool
	// OnNode returns how many related active pods a node has: pods on fuller nodes go first. Nil ignores nodes.
	OnNode func(node string) int
	// Now makes times count by the binary logarithm of their age, so that pods of about the same age are told apart by
	// UID only, which is as good as at random. Zero compares times exactly.
	Now time.Time
}

// Sort orders pods so that those to delete first come first. A rule decides only where the rules before it do not:
//
//  1. not scheduled before scheduled
//  2. phase pending before unknown before running
//  3. not ready before ready
//  4. lower deletion cost first
//  5. on nodes with more related pods first
//  6. ready for a shorter time first
//  7. more restarts of a container first, then of a sidecar
//  8. younger first
//
// Pods whose time is not known come first in 6 and 8.
func (r Ranking) Sort(pods []*corev1.Pod) {
	facts := make([]rankFacts, len(pods))
	for i, pod := range pods {
		facts[i] = r.factsOf(pod)
	}
	slices.SortFunc(facts, r.compare)
	for i := range facts {
		pods[i] = facts[i].pod
	}
}

// rankFacts is what the rules compare, worked out once per pod.
type rankFacts struct {
	pod       *corev1.Pod
	scheduled int
	phase     int
	ready     int
	cost      int32
	related   int
	restarts  int32
	sidecar   int32
	readyAt   ageFact
	created   ageFact
}

type ageFact struct {
	at  time.Time
	log int // of the age in nanoseconds; -1 for times not before now
}

func (r Ranking) factsOf(pod *corev1.Pod) rankFacts {
	f := rankFacts{pod: pod, phase: phaseOrder(pod.Status.Phase), created: r.age(pod.CreationTimestamp.Time)}
	if pod.Spec.NodeName != "" {
		f.scheduled = 1
	}
	if Ready(pod) {
		f.ready = 1
		f.readyAt = r.age(ReadySince(pod))
	}
	if r.Cost {
		f.cost = DeletionCost(pod)
	}
	if r.OnNode != nil {
		f.related = r.OnNode(pod.Spec.NodeName)
	}
	f.restarts, f.sidecar = mostRestarts(pod)
	return f
}

func (r Ranking) age(t time.Time) ageFact {
	f := ageFact{at: t, log: -1}
	if !r.Now.IsZero() && !t.IsZero() {
		if age := r.Now.Sub(t); age > 0 {
			f.log = int(math.Log2(float64(age)))
		}
	}
	return f
}

func (r Ranking) compare(a, b rankFacts) int {
	return cmp.Or(
		cmp.Compare(a.scheduled, b.scheduled),
		cmp.Compare(a.phase, b.phase),
		cmp.Compare(a.ready, b.ready),
		cmp.Compare(a.cost, b.cost),
		cmp.Compare(b.related, a.related),
		r.compareAges(a.readyAt, b.readyAt, a.pod, b.pod), // of pods that are not ready: equal
		cmp.Compare(b.restarts, a.restarts),
		cmp.Compare(b.sidecar, a.sidecar),
		r.compareAges(a.created, b.created, a.pod, b.pod),
	)
}

// compareAges puts unknown times first, then the later ones. Equal times leave the decision to the next rule; different
// times of the same magnitude do not.
func (r Ranking) compareAges(a, b ageFact, podA, podB *corev1.Pod) int {
	switch {
	case a.at.Equal(b.at):
		return 0
	case a.at.IsZero():
		return -1
	case b.at.IsZero():
		return 1
	case r.Now.IsZero():
		return b.at.Compare(a.at)
	case a.log != b.log:
		return cmp.Compare(a.log, b.log)
	}
	return strings.Compare(string(podA.UID), string(podB.UID))
}

// phaseOrder puts pods that have not started before those that run. Finished pods are not ranked.
func phaseOrder(p corev1.PodPhase) int {
	switch p {
	case corev1.PodUnknown:
		return 1
	case corev1.PodRunning:
		return 2
	}
	return 0
}

// DeletionCost returns the pod's deletion cost: 0 if it has none or one that is not a plain decimal number.
func DeletionCost(pod *corev1.Pod) int32 {
	s := pod.Annotations[corev1.PodDeletionCost]
	if s == "" || s[0] == '+' || s[0] == '0' && s != "0" {
		return 0
	}
	cost, err := strconv.ParseInt(s, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}

// mostRestarts returns the highest restart count among the pod's containers and among its sidecars, which are the init
// containers that restart always.
func mostRestarts(pod *corev1.Pod) (containers, sidecars int32) {
	for i := range pod.Status.ContainerStatuses {
		containers = max(containers, pod.Status.ContainerStatuses[i].RestartCount)
	}
	for i := range pod.Status.InitContainerStatuses {
		if s := &pod.Status.InitContainerStatuses[i]; s.RestartCount > sidecars && IsSidecar(pod, s.Name) {
			sidecars = s.RestartCount
		}
	}
	return containers, sidecars
}

// IsSidecar reports whether the container of that name is an init container that keeps running beside the others.
func IsSidecar(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool {
		return c.Name == name && c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
	})
}
