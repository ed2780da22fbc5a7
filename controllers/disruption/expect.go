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

// expectation is how many pods a budget expects to exist, and how many of them must be healthy.
type expectation struct {
	expected, desired int32
	unmanaged         []string // names of pods without a controller

	err        error         // why the numbers cannot be computed
	known      bool          // the numbers are valid
	outdated   bool          // they are based on a scale that is being read again
	asked      bool          // they are based on a scale that was read for this budget
	retryAfter time.Duration // when to reconcile again without any change; 0 for never
}

// expect computes what a budget expects. An integer minAvailable needs only the pods; everything else is computed from the
// scale of their owners.
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

// desired returns how many of the expected pods must be healthy. Percentages are rounded up: of 3 pods, 2 may be
// unavailable if maxUnavailable is 50%, and 2 must be available if minAvailable is 50%.
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
	counted := make(map[types.UID]int32, len(refs)) // by UID, so that two ReplicaSets of one Deployment count once
	for _, o := range refs {
		if uid, n, ok := r.owners.scale(o.pod.Namespace, o.ref); ok {
			counted[uid] = n
			continue
		}
		other, err := ownerFrom(o.pod.Namespace, o.ref)
		if err != nil {
			return expectation{err: err}
		}
		custom = append(custom, other)
		found, fetch := r.scales.lookUp(other, budget, now)
		if fetch {
			r.fetch(other)
		}
		want.include(found, o.pod.Name)
		counted[o.ref.UID] = found.replicas
	}
	want.expected = sum(counted)
	if len(custom) > 0 && (want.err != nil || want.known && !want.outdated) {
		r.scales.settle(budget, custom)
	}
	return want
}

// sum adds up scales. The scale of a custom owner may be negative, which counts as 0. The sum is capped at the largest
// int32: no disruption is allowed then, as the pods cannot be that many.
func sum(scales map[types.UID]int32) int32 {
	var n int64
	for _, scale := range scales {
		n += int64(max(0, scale))
	}
	return int32(min(n, math.MaxInt32))
}

// include takes the reading of one owner's scale into account; pod is the name of one of its pods.
func (e *expectation) include(r reading, pod string) {
	if r.err != nil && e.err == nil {
		if e.err = r.err; errors.Is(r.err, errNoOwner) {
			e.err = fmt.Errorf("found no controllers for pod %q", pod)
		}
	}
	e.known = e.known && r.known
	e.outdated = e.outdated || r.outdated
	e.asked = e.asked || r.asked
	if r.retryAfter > 0 && (e.retryAfter == 0 || r.retryAfter < e.retryAfter) {
		e.retryAfter = r.retryAfter
	}
}

// owned is an owner and the first of its pods by name.
type owned struct {
	ref *metav1.OwnerReference
	pod *corev1.Pod
}

// ownersOf returns the controllers of the pods, and the names of the pods without one. Both are sorted by the names of the
// pods, so that messages do not change from one reconcile to the next.
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
