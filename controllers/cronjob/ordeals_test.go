package cronjob

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"orrery/kit/kittest"
)

// ordeals is how many courses of events each policy goes through: go test ./controllers/cronjob -ordeals 1000.
var ordeals = flag.Int("ordeals", 6, "random courses of events for each concurrency policy")

// world is a cluster with one CronJob, which runs every minute. Its controller is killed after some of its writes, its
// watches lag, and users change and delete things.
type world struct {
	t       *testing.T
	api     *kittest.API
	rand    *rand.Rand
	policy  batchv1.ConcurrencyPolicy
	process *kittest.Mortal

	mu      sync.Mutex      // guards the fields below
	started map[string]int  // how often each Job was made
	unknown map[string]bool // Jobs that somebody deleted before their slot was on record: nobody can know of them
}

// write sees every write before it is carried out.
func (w *world) write(r *kittest.Request) {
	if r.Verb == "create" && r.Resource.Resource == "jobs" {
		w.starting(r.Object.GetName())
	}
}

// starting holds what must be true when a Job is made.
func (w *world) starting(name string) {
	for _, j := range w.jobs() {
		if j.Name == name {
			return // the API says that it exists
		}
		if w.policy != batchv1.AllowConcurrent && !finished(&j) && j.DeletionTimestamp == nil {
			w.t.Errorf("%s is started while %s runs", name, j.Name)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started[name]++; w.started[name] > 1 && !w.unknown[name] {
		w.t.Errorf("%s is started again", name)
	}
}

// jobs lists the Jobs that the controller has made.
func (w *world) jobs() (out []batchv1.Job) {
	for _, j := range kittest.List[batchv1.Job](w.t, w.api, "default") {
		if _, ours := slotOf("c", j); ours {
			out = append(out, *j)
		}
	}
	return out
}

// remove deletes a Job, as users and its time to live do.
func (w *world) remove(j *batchv1.Job) {
	slot, _ := slotOf("c", j)
	if isLater(slot, read(w.t, w.api, "c").Status.LastScheduleTime) {
		w.mu.Lock()
		w.unknown[j.Name] = true
		w.mu.Unlock()
	}
	w.api.Remove(w.t, j)
}

// live does one thing that users and other controllers do.
func (w *world) live() {
	all := w.jobs()
	if len(all) == 0 {
		return
	}
	j := &all[w.rand.IntN(len(all))]
	switch n := w.rand.IntN(10); {
	case n < 5 && !finished(j):
		end(j, []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed}[w.rand.IntN(2)], time.Now())
		w.api.Update(w.t, j)
	case n == 8, n == 9 && finished(j):
		w.remove(j)
	}
}

func (w *world) edit() {
	cj := read(w.t, w.api, "c")
	switch w.rand.IntN(4) {
	case 0:
		suspended(w.rand.IntN(3) == 0)(cj)
	case 1:
		history(int32(w.rand.IntN(3)), int32(w.rand.IntN(3)))(cj)
	case 2:
		cj.Labels = map[string]string{"n": fmt.Sprint(w.rand.IntN(100))}
	case 3:
		cj.Spec.StartingDeadlineSeconds = []*int64{nil, new(int64(30)), new(int64(600))}[w.rand.IntN(3)]
	}
	cj.Generation++
	w.api.Update(w.t, cj)
}

func (w *world) lag() {
	late := func() time.Duration {
		return []time.Duration{0, 0, 10 * time.Millisecond, time.Second, 70 * time.Second}[w.rand.IntN(5)]
	}
	w.api.DelayWatch(ownerKind, late())
	w.api.DelayWatch(batchv1.SchemeGroupVersion.WithKind("Job"), late())
}

// settle ends all turmoil and holds what has to be true then.
func (w *world) settle() {
	w.t.Helper()
	w.api.DelayWatch(ownerKind, 0)
	w.api.DelayWatch(batchv1.SchemeGroupVersion.WithKind("Job"), 0)
	w.process.Restart(-1)
	change(w.t, w.api, "c", suspended(false), history(2, 1), func(cj *batchv1.CronJob) { cj.Spec.StartingDeadlineSeconds = nil })
	w.api.Pass(6 * time.Minute) // what failed is tried again
	w.api.Pass(time.Until(time.Now().Truncate(time.Minute).Add(70 * time.Second)))
	for range 3 {
		for range 2 { // the end of one starts the next, which was held up
			for _, j := range w.jobs() {
				if !finished(&j) {
					finish(w.t, w.api, j.Name, batchv1.JobComplete)
				}
			}
			w.api.Pass(time.Second)
		}
		slot := time.Now().Truncate(time.Minute).Add(time.Minute)
		w.api.Pass(time.Until(slot) + time.Second)
		s := read(w.t, w.api, "c").Status
		if !s.LastScheduleTime.Equal(&metav1.Time{Time: slot}) || len(s.Active) != 1 || s.Active[0].Name != jobName("c", slot) {
			w.t.Errorf("at %v: status %+v", slot, s)
		}
		finish(w.t, w.api, jobName("c", slot), batchv1.JobComplete)
		w.api.Pass(time.Second)
	}
	done, failed := 0, 0
	for _, j := range w.jobs() {
		switch ending(&j) {
		case batchv1.JobComplete:
			done++
		case batchv1.JobFailed:
			failed++
		}
	}
	if s := read(w.t, w.api, "c").Status; done != 2 || failed > 1 || len(s.Active) != 0 {
		w.t.Errorf("%d complete and %d failed Jobs are kept, want 2 and 1; active %v", done, failed, s.Active)
	}
}

// TestNoSlotIsRunTwiceWhateverHappens runs CronJobs through random events, late watches and kills.
func TestNoSlotIsRunTwiceWhateverHappens(t *testing.T) {
	for _, p := range []batchv1.ConcurrencyPolicy{batchv1.AllowConcurrent, batchv1.ForbidConcurrent, batchv1.ReplaceConcurrent} {
		for seed := range uint64(*ordeals) {
			t.Run(fmt.Sprintf("%s/%d", p, seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := &world{
						t: t, api: kittest.New(t, newCronJob("c", "* * * * *", policy(p))), rand: rand.New(rand.NewPCG(seed, seed)), policy: p,
						started: map[string]int{}, unknown: map[string]bool{},
					}
					w.process = w.api.Mortal(t, Descriptor(), w.rand, w.write)
					w.process.Start(w.rand.IntN(8))
					for range 100 {
						switch w.rand.IntN(8) {
						case 0:
							w.lag()
						case 1:
							w.edit()
						default:
							w.live()
						}
						w.api.Pass(time.Duration(w.rand.IntN(40000)) * time.Millisecond)
						if w.process.Killed() || w.rand.IntN(20) == 0 {
							w.process.Restart(w.rand.IntN(8))
						}
					}
					w.settle()
					if len(w.started) < 5 {
						t.Errorf("only %d Jobs were started", len(w.started))
					}
				})
			})
		}
	}
}
