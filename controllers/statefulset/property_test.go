package statefulset

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"orrery/kit/kittest"
)

// storm disturbs a cluster at random.
type storm struct {
	*cluster
	rnd     *rand.Rand
	running *kittest.Running
	gentle  bool // nothing makes a pod unavailable behind the controller's back
	scaling bool // of gentle ones: sets change their size only, or their templates only

	mu     sync.Mutex // guards faults
	faults []string
}

func (s *storm) fault(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func watched() []schema.GroupVersionKind {
	return []schema.GroupVersionKind{
		podKind, setKind, corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
	}
}

// newStorm starts a controller with writes that fail at times.
func newStorm(t *testing.T, seed uint64, gentle bool, sets ...*appsv1.StatefulSet) *storm {
	s := &storm{cluster: newCluster(t), rnd: rand.New(rand.NewPCG(seed, 7)), gentle: gentle}
	for _, set := range sets {
		s.Create(t, set)
	}
	luck := make(chan int, 50_000) // drawn beforehand: calls come from many goroutines
	for range cap(luck) {
		luck <- s.rnd.IntN(25)
	}
	s.React(func(r *kittest.Request) *kittest.Reaction {
		if r.User != Name || r.Verb == "get" || r.Verb == "list" || r.Verb == "watch" {
			return nil
		}
		switch <-luck {
		case 0:
			return kittest.Refuse(http.StatusInternalServerError, "no")
		case 1:
			return kittest.Refuse(http.StatusTooManyRequests, "slowly")
		case 2:
			if !gentle { // after a while of waiting it acts on what it knows
				return &kittest.Reaction{Drop: true}
			}
		}
		return nil
	})
	s.Run(t, s.kubelets.init)
	s.running = s.Run(t, Descriptor())
	return s
}

// calm ends all disturbances and lets the cluster come to rest.
func (s *storm) calm() {
	s.Unreact()
	s.React(s.kubelets.schedule)
	for _, kind := range watched() {
		s.FreezeWatch(kind, false)
		s.DelayWatch(kind, 0)
	}
	s.Pass(15 * time.Minute)
}

// disturb does one thing, most often to a set.
func (s *storm) disturb() {
	sets := kittest.List[appsv1.StatefulSet](s.t, s.API, "default")
	set := sets[s.rnd.IntN(len(sets))].Name
	kind := watched()[s.rnd.IntN(4)]
	n := s.rnd.IntN(14)
	if s.gentle {
		n = s.rnd.IntN(9)
		if (n < 2) != s.scaling && n < 5 {
			return
		}
	}
	switch n {
	case 0, 1:
		s.change(set, replicas(s.rnd.Int32N(6)))
	case 2, 3:
		s.change(set, image(fmt.Sprintf("img:%d", s.rnd.IntN(4))))
	case 4:
		limit := "1"
		if u := s.set(set).Spec.UpdateStrategy.RollingUpdate; u != nil {
			limit = u.MaxUnavailable.String()
		}
		s.change(set, rolling(limit, s.rnd.Int32N(3)))
	case 5:
		s.restart()
	case 6:
		s.DelayWatch(kind, time.Duration(s.rnd.IntN(3000))*time.Millisecond)
	case 7:
		s.FreezeWatch(kind, s.rnd.IntN(3) == 0)
	case 8:
		s.BreakWatch(kind)
	case 9:
		s.change(set, from(s.rnd.Int32N(3)))
	case 10:
		s.Compact(kind)
	default:
		s.harm(n)
	}
}

// restart starts the controller anew. A new process has read the cluster as it is; only in the worst case, as with a
// standby whose watches lag, does it begin with what was there before.
func (s *storm) restart() {
	s.running.Stop()
	if s.gentle {
		for _, kind := range watched() {
			s.FreezeWatch(kind, false)
			s.DelayWatch(kind, 0)
		}
		s.Pass(3 * time.Second)
	}
	s.running = s.Run(s.t, Descriptor())
}

// harm does something to a pod.
func (s *storm) harm(n int) {
	pods := kittest.List[corev1.Pod](s.t, s.API, "default")
	if len(pods) == 0 {
		return
	}
	pod := pods[s.rnd.IntN(len(pods))]
	switch {
	case n == 11:
		s.Delete(s.t, pod)
	case going(pod):
	case n == 12:
		s.kubelets.stop(pod)
		pod.Status.Phase, pod.Status.Conditions = corev1.PodFailed, nil
		s.Update(s.t, pod)
	case s.rnd.IntN(2) == 0:
		delete(pod.Labels, appsv1.StatefulSetPodNameLabel)
		s.Update(s.t, pod)
	default:
		pod.OwnerReferences = nil
		s.Update(s.t, pod)
	}
}

// atRest checks what every set must look like in the end, and that nothing is done any more.
func (s *storm) atRest() {
	s.t.Helper()
	for _, set := range kittest.List[appsv1.StatefulSet](s.t, s.API, "default") {
		first, n := 0, int(*set.Spec.Replicas)
		if set.Spec.Ordinals != nil {
			first = int(set.Spec.Ordinals.Start)
		}
		var want, got []string
		for ordinal := first; ordinal < first+n; ordinal++ {
			want = append(want, podName(set.Name, ordinal))
		}
		st := set.Status
		for _, pod := range kittest.List[corev1.Pod](s.t, s.API, "default") {
			owner, ordinal, _ := parent(pod.Name)
			if owner != set.Name {
				continue
			}
			got = append(got, pod.Name)
			if !working(pod) || going(pod) || ownerOf(pod) != set.Name || !identified(pod) || !stored(set, pod, ordinal) {
				s.t.Errorf("pod %s is not what it should be: %+v", pod.Name, pod.Status)
			}
			held := 0
			if u := set.Spec.UpdateStrategy.RollingUpdate; u != nil {
				held = int(*u.Partition)
			}
			if ordinal >= first+held && revisionOf(pod) != st.UpdateRevision {
				s.t.Errorf("pod %s is of revision %s, want %s", pod.Name, revisionOf(pod), st.UpdateRevision)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			s.t.Errorf("set %s has pods %v, want %v", set.Name, got, want)
		}
		if int(st.Replicas) != n || int(st.ReadyReplicas) != n || int(st.AvailableReplicas) != n || st.ObservedGeneration != set.Generation {
			s.t.Errorf("set %s of %d has status %+v", set.Name, n, st)
		}
	}
	s.TakeWrites()
	s.Pass(10 * time.Minute)
	if writes := s.TakeWrites(); len(writes) > 0 {
		s.t.Errorf("at rest it did %v", writes)
	}
	for _, fault := range append(s.kubelets.faults, s.faults...) {
		s.t.Error(fault)
	}
}

func seeds(t *testing.T, n uint64) uint64 {
	if testing.Short() {
		return 3
	}
	return n
}

// Whatever is killed when: no two pods of a name ever run at once, and in the end all is as it should be.
func TestAtMostOnePodRunsPerOrdinal(t *testing.T) {
	for seed := range seeds(t, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStorm(t, seed, false,
					newSet("ord", 3, storing("data"), retention(drop, keep)), newSet("par", 4, parallel, rolling("2", 0)),
					newSet("slow", 2, minReady(3)), newSet("late", 3, parallel, minReady(2), storing("data", "log")))
				for range 120 {
					s.disturb()
					s.Pass(time.Duration(s.rnd.IntN(2500)) * time.Millisecond)
				}
				s.calm()
				s.atRest()
			})
		})
	}
}

// An ordered set never has more than one pod on the way when it is scaled, up and down, and never more than may be
// unavailable when it is updated, to and fro, however often the controller is restarted.
func TestAnOrderedSetMovesWithinItsBounds(t *testing.T) {
	for seed := range seeds(t, 8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := 1 + int(seed%2)
				s := newStorm(t, seed, true, newSet("web", 4, rolling(fmt.Sprint(limit), 0)))
				if s.scaling = seed%4 < 2; s.scaling {
					limit = 1
				}
				s.React(func(r *kittest.Request) *kittest.Reaction {
					if r.User != Name || r.Resource.Resource != "pods" || r.Verb != "create" && r.Verb != "delete" {
						return nil
					}
					name := r.Name
					if r.Verb == "create" {
						name = r.Object.GetName()
					}
					var moving []string
					for _, pod := range kittest.List[corev1.Pod](t, s.API, "default") {
						if pod.Name != name && (!working(pod) || going(pod)) {
							moving = append(moving, pod.Name)
						}
					}
					if len(moving) >= limit {
						s.fault("%s while %s is on the way", r, strings.Join(moving, " "))
					}
					return nil
				})
				for range 120 {
					s.disturb()
					s.Pass(time.Duration(s.rnd.IntN(2500)) * time.Millisecond)
				}
				s.calm()
				s.atRest()
			})
		})
	}
}
