package disruption

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/kit"
)

// expectation is how many pods a budget expects to exist, and how many of them it wants healthy.
type expectation struct {
	expected, desired int32
	unmanaged         []string // names of pods that no controller owns

	err      error         // why the numbers cannot be known
	known    bool          // the numbers are there
	outdated bool          // some of them are of answers that are due to be asked for again
	asked    bool          // some of them were asked for since the last look
	again    time.Duration // until it is worth to look again without any change; 0: never
}

// expect finds out what a budget expects. A whole minAvailable needs no more than the pods; everything else is reckoned
// from the scale of their owners.
func (r *reconciler) expect(b *policyv1.PodDisruptionBudget, pods []*corev1.Pod, now time.Time) expectation {
	least, most := b.Spec.MinAvailable, b.Spec.MaxUnavailable
	switch {
	case most == nil && least == nil:
		return expectation{known: true}
	case most == nil && least.Type == intstr.Int:
		return expectation{known: true, expected: int32(len(pods)), desired: least.IntVal}
	}
	want := r.scaleOf(kit.KeyOf(b), pods, now)
	if want.err == nil && want.known {
		want.desired, want.err = desired(least, most, want.expected)
	}
	return want
}

// desired returns how many of the expected pods are to be healthy. Percentages are rounded up, so that of 3 pods with
// 50% at most unavailable 2 may be, and with 50% at least available 2 have to be.
func desired(least, most *intstr.IntOrString, expected int32) (int32, error) {
	if most != nil {
		n, err := intstr.GetScaledValueFromIntOrPercent(most, int(expected), true)
		if err != nil {
			return 0, fmt.Errorf("read maxUnavailable: %w", err)
		}
		return int32(max(0, int(expected)-n)), nil
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(least, int(expected), true)
	if err != nil {
		return 0, fmt.Errorf("read minAvailable: %w", err)
	}
	return int32(n), nil
}

// scaleOf adds up the scales of all owners of the pods.
func (r *reconciler) scaleOf(budget kit.Key, pods []*corev1.Pod, now time.Time) expectation {
	refs, unmanaged := ownersOf(pods)
	want := expectation{known: true, unmanaged: unmanaged}
	var custom []owner
	counted := make(map[types.UID]int32, len(refs)) // two ReplicaSets of one Deployment count once
	for _, o := range refs {
		if uid, n, ok := r.owners.scale(o.pod.Namespace, o.ref); ok {
			counted[uid] = n
			continue
		}
		asked, err := ownerFrom(o.pod.Namespace, o.ref)
		if err != nil {
			return expectation{err: err}
		}
		custom = append(custom, asked)
		answer, ask := r.scales.look(asked, budget, now)
		if ask {
			r.ask(asked)
		}
		want.include(answer, o.pod.Name)
		counted[o.ref.UID] = answer.replicas
	}
	want.expected = sum(counted)
	if len(custom) > 0 && (want.err != nil || want.known && !want.outdated) {
		r.scales.settle(budget, custom)
	}
	return want
}

// sum adds up scales. A custom owner may have one below zero, which stands for none. Where no number of the status holds
// them all it is the largest, of which no disruption is allowed.
func sum(scales map[types.UID]int32) int32 {
	var n int64
	for _, scale := range scales {
		n += int64(max(0, scale))
	}
	return int32(min(n, math.MaxInt32))
}

// include takes an answer, about the owner of a pod, into account.
func (e *expectation) include(a reading, pod string) {
	if a.err != nil && e.err == nil {
		if e.err = a.err; errors.Is(a.err, errNoOwner) {
			e.err = fmt.Errorf("found no controllers for pod %q", pod)
		}
	}
	e.known = e.known && a.known
	e.outdated = e.outdated || a.outdated
	e.asked = e.asked || a.asked
	if a.again > 0 && (e.again == 0 || a.again < e.again) {
		e.again = a.again
	}
}

// owned is an owner, and of its pods the first by name.
type owned struct {
	ref *metav1.OwnerReference
	pod *corev1.Pod
}

// ownersOf returns the controlling owners of the pods, in the order of their pods' names so that what is said of them
// does not change from look to look, and the names of the pods without one.
func ownersOf(pods []*corev1.Pod) (refs []owned, unmanaged []string) {
	at := map[types.UID]int{}
	last := -1
	for _, pod := range pods {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil {
			unmanaged = append(unmanaged, pod.Name)
			continue
		}
		if last < 0 || refs[last].ref.UID != ref.UID {
			i, ok := at[ref.UID]
			if !ok {
				i = len(refs)
				at[ref.UID] = i
				refs = append(refs, owned{ref, pod})
			}
			last = i
		}
		if pod.Name < refs[last].pod.Name {
			refs[last] = owned{ref, pod}
		}
	}
	slices.SortFunc(refs, func(a, b owned) int { return cmp.Compare(a.pod.Name, b.pod.Name) })
	slices.Sort(unmanaged)
	return refs, unmanaged
}
