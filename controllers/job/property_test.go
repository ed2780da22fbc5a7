package job

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"orrery/kit/kittest"
)

// world is a cluster with one Job whose controller is killed after some of its writes, and whose watches lag. It keeps
// its own account of what the controller may count.
type world struct {
	t       *testing.T
	api     *kittest.API
	rand    *rand.Rand
	process *kittest.Mortal
	loose   bool // the spec changes, and how many pods may run, and which count, depends on when it was read

	mu     sync.Mutex         // guards counts
	counts map[types.UID]fate // of pods that have been freed; unfinished is surplus
}

func newWorld(t *testing.T, seed uint64, job *batchv1.Job) *world {
	w := &world{
		t: t, api: strict(t, job), rand: rand.New(rand.NewPCG(seed, seed)),
		counts: map[types.UID]fate{},
	}
	w.process = w.api.Mortal(t, Descriptor(), w.rand, w.write)
	return w
}

// write sees every write before it is carried out.
func (w *world) write(r *kittest.Request) {
	if r.Verb == "patch" && r.Resource.Resource == "pods" {
		w.freeing(r)
	}
}

// freeing notes, when a finalizer goes, under what the status has the pod listed: that is how it is counted.
func (w *world) freeing(r *kittest.Request) {
	var patch struct {
		Metadata struct {
			Version    string   `json:"resourceVersion"`
			Finalizers []string `json:"$deleteFromPrimitiveList/finalizers"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(r.Patch, &patch); err != nil {
		w.t.Errorf("patch %s: %v", r.Patch, err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.Namespace, Name: r.Name}}
	if len(patch.Metadata.Finalizers) == 0 || !w.api.Get(w.t, pod) || !tracked(pod) || patch.Metadata.Version != "" && patch.Metadata.Version != pod.ResourceVersion {
		return
	}
	job := get(w.t, w.api, "j")
	as := listedIn(&job.Status)[pod.UID]
	if as == unfinished && indexed(job) && pod.Status.Phase == corev1.PodSucceeded {
		if at := indexOf(job, pod); at != noIndex && !slices.Contains(done(job), at) && !w.loose {
			w.t.Errorf("pod %s of index %d is freed and its index not counted: %s", pod.Name, at, summary(job))
		}
		as = success
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// What was surplus may be wanted again: it was not counted the first time.
	if before, ok := w.counts[pod.UID]; ok && before != unfinished {
		w.t.Errorf("pod %s is freed again", pod.Name)
	}
	w.counts[pod.UID] = as
	if w.loose {
		return
	}
	if as == unfinished && pod.Status.Phase == corev1.PodSucceeded {
		w.t.Errorf("pod %s has succeeded and is freed without being counted: %s", pod.Name, summary(job))
	}
	if as == unfinished && pod.Status.Phase == corev1.PodFailed && job.Spec.PodFailurePolicy == nil {
		w.t.Errorf("pod %s has failed and is freed without being counted: %s", pod.Name, summary(job))
	}
}

// done lists the completed indexes.
func done(job *batchv1.Job) []int {
	var out []int
	for part := range strings.SplitSeq(job.Status.CompletedIndexes, ",") {
		var a, b int
		switch n, _ := fmt.Sscanf(part, "%d-%d", &a, &b); n {
		case 1:
			out = append(out, a)
		case 2:
			for ; a <= b; a++ {
				out = append(out, a)
			}
		}
	}
	return out
}

// total returns how many pods have been freed under a fate.
func (w *world) total(f fate) (n int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, as := range w.counts {
		if as == f {
			n++
		}
	}
	return n
}

// check holds what is true at all times: nobody has more pods than were asked for.
func (w *world) check() {
	if w.loose {
		return
	}
	job := get(w.t, w.api, "j")
	active := activePods(w.t, w.api)
	succeeded := 0
	for _, p := range allPods(w.t, w.api) {
		if p.Status.Phase == corev1.PodSucceeded && !w.surplus(p) {
			succeeded++
		}
	}
	if n := int(*job.Spec.Parallelism); len(active) > n {
		w.t.Errorf("%d pods are active, want at most %d: %s", len(active), n, summary(job))
	}
	if n := job.Spec.Completions; n != nil && len(active)+succeeded > int(*n) && len(active) > 0 && !indexed(job) {
		w.t.Errorf("%d pods are active and %d have succeeded, more than the %d wanted: %s", len(active), succeeded, *n, summary(job))
	}
	seen := map[int]bool{}
	for _, p := range active {
		if at := indexOf(job, p); at != noIndex {
			if seen[at] {
				w.t.Errorf("two active pods have index %d", at)
			}
			seen[at] = true
		}
	}
}

// surplus reports whether a pod was freed before it ended.
func (w *world) surplus(p *corev1.Pod) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	as, freed := w.counts[p.UID]
	return freed && as == unfinished && !tracked(p)
}

// live does one thing that pods, users and kubelets do.
func (w *world) live(failing int) {
	active := activePods(w.t, w.api)
	if len(active) > 0 {
		p := active[w.rand.IntN(len(active))]
		switch n := w.rand.IntN(100); {
		case n < 35:
			changePod(w.t, w.api, p, runs)
		case n < 35+failing:
			changePod(w.t, w.api, p, exits(1))
		case n < 80:
			changePod(w.t, w.api, p, exits(0))
		case n < 85:
			w.api.Delete(w.t, p)
		}
	}
	for _, p := range allPods(w.t, w.api) { // kubelets stop what is to go
		if p.DeletionTimestamp != nil && w.rand.IntN(3) == 0 {
			w.stop(p)
		}
	}
}

// stop ends a pod that is being deleted, which then goes once its finalizer has gone.
func (w *world) stop(p *corev1.Pod) {
	if p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending {
		changePod(w.t, w.api, p, exits(int32(w.rand.IntN(2))))
	}
	if w.api.Get(w.t, p) && !tracked(p) {
		w.api.Remove(w.t, p)
	}
}

// lag makes the watches late by some random time.
func (w *world) lag() {
	late := func() time.Duration {
		return []time.Duration{0, 0, 10 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second}[w.rand.IntN(5)]
	}
	w.api.DelayWatch(podKind, late())
	w.api.DelayWatch(jobKind, late())
}

// finish ends all turmoil, lets the Job end, and compares its counts with the world's own.
func (w *world) finish() {
	w.t.Helper()
	w.api.DelayWatch(podKind, 0)
	w.api.DelayWatch(jobKind, 0)
	w.process.Restart(-1)
	for range 200 {
		w.api.Pass(3 * time.Second)
		w.check()
		job := get(w.t, w.api, "j")
		if finished(job) {
			break
		}
		for _, p := range allPods(w.t, w.api) {
			if p.DeletionTimestamp != nil {
				w.stop(p)
			}
		}
		for _, p := range activePods(w.t, w.api) {
			changePod(w.t, w.api, p, exits(0))
		}
		w.api.Pass(time.Minute) // of back-off
	}
	job := get(w.t, w.api, "j")
	if !finished(job) {
		w.t.Fatalf("the Job does not end: %s", summary(job))
	}
	if n := len(trackedPods(w.t, w.api)); n > 0 {
		w.t.Errorf("%d pods keep the finalizer", n)
	}
	if got, want := job.Status.Failed, w.total(failure); got != want {
		w.t.Errorf("%d failed pods are counted, want %d: %s", got, want, summary(job))
	}
	want := w.total(success)
	if indexed(job) {
		want = int32(len(done(job)))
	}
	shrunk := indexed(job) && !ptr.Equal(job.Spec.Completions, job.Spec.Parallelism) // the server took no smaller count
	if got := job.Status.Succeeded; got != want && !(w.loose && shrunk && got > want) {
		w.t.Errorf("%d succeeded pods are counted, want %d: %s", got, want, summary(job))
	}
}

// jobsOfAllKinds are the Jobs that the ordeals are about, with so many completions and pods at once.
func jobsOfAllKinds(parallelism, completions int32) map[string]func() *batchv1.Job {
	n := of(parallelism, completions)
	return map[string]func() *batchv1.Job{
		"plain":     func() *batchv1.Job { return newJob("j", n, limit(20)) },
		"queue":     func() *batchv1.Job { return newJob("j", workQueue(parallelism), limit(20)) },
		"failing":   func() *batchv1.Job { return newJob("j", n, limit(2)) },
		"indexed":   func() *batchv1.Job { return newJob("j", n, withIndexes, limit(20)) },
		"per index": func() *batchv1.Job { return newJob("j", n, withIndexes, limitEach(1)) },
		"patient":   func() *batchv1.Job { return newJob("j", n, failedOnly, limit(20)) },
		"ignoring": func() *batchv1.Job {
			return newJob("j", n, limit(3), policy(on(batchv1.PodFailurePolicyActionIgnore, 1)))
		},
	}
}

// ordeals is how many courses of events each kind of Job goes through: go test ./controllers/job -ordeals 1000.
var ordeals = flag.Int("ordeals", 6, "random courses of events for each kind of Job")

// TestEveryPodIsCountedOnceWhateverIsLate runs Jobs through random events, late watches and kills.
func TestEveryPodIsCountedOnceWhateverIsLate(t *testing.T) {
	for name, job := range jobsOfAllKinds(3, 6) {
		for seed := range uint64(*ordeals) {
			t.Run(fmt.Sprintf("%s/%d", name, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed, job())
					w.process.Start(w.rand.IntN(12))
					for range 60 {
						switch w.rand.IntN(10) {
						case 0:
							w.lag()
						case 1:
							if job := get(t, w.api, "j"); !finished(job) {
								edit(t, w.api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(w.rand.IntN(3) == 0) })
							}
						default:
							w.live(25)
						}
						w.api.Pass(time.Duration(w.rand.IntN(800)) * time.Millisecond)
						w.check()
						if w.process.Killed() || w.rand.IntN(20) == 0 {
							w.process.Restart(w.rand.IntN(12))
						}
					}
					edit(t, w.api, "j", func(j *batchv1.Job) { j.Spec.Suspend = new(false) })
					w.finish()
					if n := w.process.Kills(); n < 2 {
						t.Errorf("only %d kills", n)
					}
				})
			})
		}
	}
}

// TestEveryPodIsCountedOnceWhereverItStops kills the process after each single write of the same course of events.
func TestEveryPodIsCountedOnceWhereverItStops(t *testing.T) {
	for name, job := range jobsOfAllKinds(2, 3) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for after := 0; ; after++ {
				died := false
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, uint64(after), job())
					w.process.Start(after)
					for step := 0; step < 25 && !finished(get(t, w.api, "j")); step++ {
						for at, p := range activePods(t, w.api) {
							switch (step + at) % 4 {
							case 0:
								changePod(t, w.api, p, exits(0))
							case 1:
								changePod(t, w.api, p, exits(1))
							case 2:
								changePod(t, w.api, p, runs)
							}
						}
						w.api.Pass(4 * time.Second)
						w.check()
						if w.process.Killed() {
							died = true
							w.process.Restart(-1)
						}
					}
					w.finish()
				})
				if t.Failed() {
					t.Fatalf("killed after write %d", after)
				}
				if !died {
					t.Logf("cut off after each of %d writes", after)
					if after < 8 {
						t.Errorf("only %d writes were cut off", after)
					}
					return
				}
			}
		})
	}
}
