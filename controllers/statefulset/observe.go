package statefulset

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"orrery/controllers/internal/podctl"
)

// strategies are the feature gates that decide how pods are replaced.
type strategies struct {
	maxUnavailable bool // spec.updateStrategy.rollingUpdate.maxUnavailable counts
	recreate       bool // spec.updateStrategy.type may be Recreate
}

// member is an ordinal of a set; pod is nil if it has none.
type member struct {
	ordinal int
	pod     *corev1.Pod
}

// state is a set as one reconcile sees it. What is reached through pointers is shared and read-only. Ordinals without a
// pod are not stored: a set may ask for more of them than fit into memory.
type state struct {
	set     *appsv1.StatefulSet
	now     time.Time
	claim   func(name string) (*corev1.PersistentVolumeClaim, bool)
	taken   func(pod string) bool // a pod of that name exists, whoever owns it
	closing bool                  // the namespace is being deleted: nothing can be created
	rules   strategies
	revisions

	first, end int      // the ordinals of the set are from first to before end
	replicas   []member // the pods of these ordinals, in their order
	condemned  []member // pods of other ordinals, the highest first

	maxUnavailable int
	unavailable    int // replicas that are missing, terminating or not available
}

// observe sorts the pods of a set by what they are to it.
func observe(set *appsv1.StatefulSet, pods []*corev1.Pod, revs revisions, rules strategies, now time.Time) *state {
	s := &state{set: set, now: now, rules: rules, revisions: revs, maxUnavailable: 1, taken: func(string) bool { return false }}
	if set.Spec.Ordinals != nil {
		s.first = int(set.Spec.Ordinals.Start)
	}
	s.end = s.first + size(set)
	available := 0
	for _, pod := range pods {
		ordinal, ok := memberOf(set, pod)
		switch m := (member{ordinal, pod}); {
		case !ok:
		case s.within(ordinal):
			s.replicas = append(s.replicas, m)
			if s.serving(pod) {
				available++
			}
		default:
			s.condemned = append(s.condemned, m)
		}
	}
	s.unavailable = s.end - s.first - available
	slices.SortFunc(s.replicas, func(a, b member) int { return cmp.Compare(a.ordinal, b.ordinal) })
	slices.SortFunc(s.condemned, func(a, b member) int { return cmp.Compare(b.ordinal, a.ordinal) })
	if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil && rules.maxUnavailable {
		s.maxUnavailable = mayBeUnavailable(u.MaxUnavailable, s.end-s.first)
	}
	return s
}

// size returns how many pods a set asks for.
func size(set *appsv1.StatefulSet) int {
	if set.Spec.Replicas == nil {
		return 1
	}
	return int(*set.Spec.Replicas)
}

// mayBeUnavailable returns how many of that many pods may be unavailable. The limit is a number or a percentage, which is
// rounded down. The result is at least 1, also if the limit is missing or invalid.
func mayBeUnavailable(limit *intstr.IntOrString, of int) int {
	n, err := intstr.GetScaledValueFromIntOrPercent(intstr.ValueOrDefault(limit, intstr.FromInt32(1)), of, false)
	if err != nil {
		return 1
	}
	return max(1, n)
}

func (s *state) within(ordinal int) bool { return ordinal >= s.first && ordinal < s.end }

// ordered reports whether pods come and go one at a time.
func (s *state) ordered() bool { return s.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement }

// available reports whether a pod has been ready for as long as the set asks for. It may be terminating nevertheless.
func (s *state) available(pod *corev1.Pod) bool {
	return podctl.Available(pod, s.set.Spec.MinReadySeconds, s.now)
}

// serving reports whether a pod is available and not terminating.
func (s *state) serving(pod *corev1.Pod) bool { return s.available(pod) && !going(pod) }

// outdated reports whether a pod is of another revision than the set's latest.
func (s *state) outdated(pod *corev1.Pod) bool { return revisionOf(pod) != s.update.Name }

func going(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

// working reports whether a pod runs and says that it is ready.
func working(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && podctl.Ready(pod) }

// partition returns how many of the lowest ordinals stay with the current revision.
func (s *state) partition() int {
	if u := s.set.Spec.UpdateStrategy.RollingUpdate; u != nil && u.Partition != nil {
		return int(*u.Partition)
	}
	return 0
}

// staysBehind reports whether a new pod of an ordinal is made from the current and not from the update revision.
func (s *state) staysBehind(ordinal int) bool {
	u := s.set.Spec.UpdateStrategy
	if u.RollingUpdate != nil {
		return ordinal < s.first+s.partition()
	}
	return u.Type == appsv1.RollingUpdateStatefulSetStrategyType && ordinal < s.first+int(s.set.Status.CurrentReplicas)
}
