package kittest

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FaultTest is a piece of work of one process, into which InjectFaults injects faults.
type FaultTest struct {
	// Run are the controllers of the process, each as API.Run takes it.
	Run []any
	// Given prepares the API. If there is a Change, the controllers first settle on this state without faults.
	Given func(t *testing.T, a *API)
	// Before changes something after that, and everything settles again without faults.
	Before func(t *testing.T, a *API)
	// Change sets off the work under test. Without it, the work is to reconcile what Given and Before prepared.
	Change func(t *testing.T, a *API)
	// World does what other components, such as kubelets, would do in the current state. It is called after every change,
	// and must reach a state in which it does nothing more.
	World func(t *testing.T, a *API)
	// Always checks an invariant after every change. It returns what is violated, or nothing.
	Always func(t *testing.T, a *API) string
	// Rest is how long nothing may change before the work counts as done; the default is a minute.
	Rest time.Duration
	// Kinds are the kinds whose watches are delayed and whose lists fail; the default is all cached kinds.
	Kinds []string
	// Ignore lists what may differ in the end: "create v1/events", or a path such as "Pod status.reason".
	Ignore []string
}

// fault is what happens to a process at one of its writes.
type fault struct {
	name string
	// reaction to the write; nil carries it out.
	reaction *Reaction
	// takes is how long the write takes.
	takes time.Duration
	// ends says whether, and how, the process ends at the write.
	ends ending
	// away is how long the other components go on before the next process starts.
	away time.Duration
	// only selects the writes to which the fault can happen; nil selects all.
	only func(*Request) bool
	// overtaken means that somebody else writes to the object first.
	overtaken bool
}

type ending int

const (
	livesOn ending = iota
	isStopped
	isKilled
)

var errGone = errors.New("the process is gone")

// faults returns all faults. A process that is stopped still has five seconds for its calls in flight.
func faults() []fault {
	changes := func(r *Request) bool { return r.Verb == "update" || r.Verb == "patch" }
	slowly := Refuse(http.StatusTooManyRequests, "slowly")
	return []fault{
		{name: "killed before", reaction: &Reaction{Err: errGone}, ends: isKilled},
		{name: "killed after", reaction: &Reaction{Drop: true}, ends: isKilled},
		{name: "killed after, and away", reaction: &Reaction{Drop: true}, ends: isKilled, away: 5 * time.Second},
		{name: "stopped", takes: time.Second, ends: isStopped},
		{name: "stopped, and answered too late", reaction: &Reaction{Drop: true}, takes: 6 * time.Second, ends: isStopped},
		{name: "answer lost", reaction: &Reaction{Drop: true}},
		{name: "connection lost", reaction: &Reaction{Err: errors.New("connection reset")}},
		{name: "refused with 500", reaction: Refuse(http.StatusInternalServerError, "no")},
		{name: "refused with 429", reaction: slowly},
		{name: "refused with 409", reaction: Refuse(http.StatusConflict, "changed meanwhile"), only: changes, overtaken: true},
	}
}

// shortShare is the share of the faults that are injected in short mode, which the race detector runs use: one in five.
const shortShare = 5

// InjectFaults runs the work once without faults, and then once for each of its writes and each fault that may happen
// there: the process is killed or stopped, the answer is lost, the write is refused. A process that has ended is followed
// by one with empty caches. In further runs the watches of one kind, or of all others, are delayed, or the lists of one kind
// fail for a while. Every run must end with the same objects, and must create and delete exactly as many objects of each
// kind, as the run without faults.
func InjectFaults(t *testing.T, p FaultTest) {
	t.Helper()
	var want result
	p.once(t, "no fault", &want, func(*run) {})
	if t.Failed() {
		return
	}
	if len(want.writes) == 0 {
		t.Fatal("the work makes no writes at which a fault could happen")
	}
	for i, f := range faults() {
		for n := range want.writes {
			if testing.Short() && (i+n)%shortShare != 0 {
				continue
			}
			p.once(t, fmt.Sprintf("%s, at write %d", f.name, n+1), &want, func(r *run) { r.fault, r.left = f, n+1 })
		}
	}
	for _, kind := range want.kinds {
		p.once(t, "delayed watches of "+kind.Kind, &want, func(r *run) { r.delayed = []schema.GroupVersionKind{kind} })
		p.once(t, "failing lists of "+kind.Kind, &want, func(r *run) { r.unlisted = kind })
		others := slices.DeleteFunc(slices.Clone(want.kinds), func(k schema.GroupVersionKind) bool { return k == kind })
		if len(others) > 1 {
			p.once(t, "delayed watches of all but "+kind.Kind, &want, func(r *run) { r.delayed = others })
		}
	}
}

// result is the outcome of a run.
type result struct {
	end    []string       // the objects in the end, as text
	counts map[string]int // creates and deletes, by verb and resource
	writes []string
	kinds  []schema.GroupVersionKind // the cached kinds whose watches and lists can be disturbed
}

// run is one run of the work, with one fault or none.
type run struct {
	FaultTest
	t        *testing.T
	api      *API
	delayed  []schema.GroupVersionKind // their watches are delayed
	unlisted schema.GroupVersionKind   // its lists fail for a while; empty: none
	unlist   schema.GroupVersionResource
	quiet    time.Duration // for which nothing has changed
	steps    int
	seen     uint64          // the resourceVersion of the API at the last observe
	wrong    map[string]bool // violations that have been reported

	mu      sync.Mutex // guards the fields below
	running []*Running
	fault   fault
	left    int    // writes until the fault; 0: no fault
	at      string // the write at which the fault happened
	ended   bool   // another process has to be started
	dead    bool   // the process's calls do not reach the API
	failing bool   // lists of the unlisted kind fail
}

// once makes one run and compares its result with want, which the first run sets.
func (p FaultTest) once(t *testing.T, name string, want *result, prepare func(*run)) {
	t.Helper()
	t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &run{FaultTest: p, t: t, api: New(t), wrong: map[string]bool{}}
			if r.Rest == 0 {
				r.Rest = time.Minute
			}
			p.Given(t, r.api)
			got := r.do(prepare)
			if want.writes == nil {
				*want = got
				return
			}
			r.compare(*want, got)
		})
	})
}

func (r *run) do(prepare func(*run)) result {
	if r.Change != nil {
		r.start()
		r.settle()
	}
	if r.Before != nil {
		r.Before(r.t, r.api)
		r.settle()
	}
	r.api.TakeWrites()
	r.mu.Lock()
	prepare(r)
	r.mu.Unlock()
	r.api.React(r.react)
	if r.unlisted.Kind != "" {
		r.stop()
		r.mu.Lock()
		r.unlist, r.failing = r.api.registry.byKind[r.unlisted].gvr(), true
		r.mu.Unlock()
	}
	if r.Change != nil {
		r.Change(r.t, r.api)
	}
	if len(r.running) == 0 {
		r.start()
	}
	for _, kind := range r.delayed {
		r.api.DelayWatch(kind, 3*time.Second)
	}
	if r.unlisted.Kind != "" {
		for range 20 {
			r.step(time.Second)
		}
		r.mu.Lock()
		r.failing = false
		r.mu.Unlock()
	}
	r.settle()
	out := result{end: r.api.state(r.Ignore), writes: r.api.Writes(), counts: map[string]int{}}
	for _, w := range out.writes {
		what, _, _ := strings.Cut(strings.Replace(w, " ", "\x00", 1), " ")
		what = strings.Replace(what, "\x00", " ", 1)
		if strings.HasPrefix(what, "create ") || strings.HasPrefix(what, "delete ") {
			out.counts[what]++
		}
	}
	for _, i := range r.api.cache.Informers() {
		if !slices.Contains(out.kinds, i.GVK) && (r.Kinds == nil || slices.Contains(r.Kinds, i.GVK.Kind)) {
			out.kinds = append(out.kinds, i.GVK)
		}
	}
	return out
}

func (r *run) start() {
	for _, c := range r.Run {
		running := r.api.Run(r.t, c)
		r.mu.Lock()
		r.running = append(r.running, running)
		r.mu.Unlock()
	}
}

// stop ends the process and drops its cache.
func (r *run) stop() {
	r.mu.Lock()
	all := r.running
	r.running = nil
	r.mu.Unlock()
	for _, c := range all {
		c.cancel()
	}
	for _, c := range all {
		c.Stop()
	}
	r.api.ForgetCache()
}

// react sees every call of the process.
func (r *run) react(q *Request) *Reaction {
	r.mu.Lock()
	if r.failing && q.Resource == r.unlist && (q.Verb == "list" || q.Verb == "watch") {
		r.mu.Unlock()
		return Refuse(http.StatusInternalServerError, "etcd is unavailable")
	}
	if r.dead {
		r.mu.Unlock()
		return &Reaction{Err: errGone}
	}
	if q.reads() || r.left == 0 || r.fault.only != nil && !r.fault.only(q) {
		r.mu.Unlock()
		return nil
	}
	r.left--
	if r.left > 0 {
		r.mu.Unlock()
		return nil
	}
	f := r.fault
	r.at, r.ended, r.dead = q.String(), f.ends != livesOn, f.ends == isKilled
	if f.ends == isStopped {
		for _, p := range r.running {
			p.cancel()
		}
	}
	r.mu.Unlock()
	if f.overtaken {
		r.api.touch(q)
	}
	time.Sleep(f.takes)
	return f.reaction
}

// touch writes an object unchanged, which gives it a new resourceVersion.
func (a *API) touch(q *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.store.table(q.Resource.GroupResource()).objects[q.Key()]; o != nil {
		a.store.put(q.Resource.GroupResource(), o.DeepCopy())
	}
}

// settle lets time pass until nothing has changed for as long as Rest.
func (r *run) settle() {
	r.t.Helper()
	for r.quiet = 0; r.quiet < r.Rest; {
		r.step(max(200*time.Millisecond, r.quiet))
	}
}

// step lets time pass, and replaces a process that has ended.
func (r *run) step(d time.Duration) {
	r.t.Helper()
	const limit = 300
	if r.steps++; r.steps > limit {
		r.t.Fatalf("still changing after %d steps; the last writes: %q", limit, lastOf(r.api.Writes(), 20))
	}
	r.api.Pass(d)
	r.quiet += d
	r.mu.Lock()
	ended, away := r.ended, r.fault.away
	r.ended = false
	r.mu.Unlock()
	if ended {
		r.stop()
		for until := time.Now().Add(away); time.Now().Before(until); {
			r.step(away / 10)
		}
		r.mu.Lock()
		r.dead = false
		r.mu.Unlock()
		r.start()
		r.quiet = 0
	}
	r.observe()
}

// observe checks the invariant and calls World if anything has changed.
func (r *run) observe() {
	r.api.mu.Lock()
	version := r.api.store.version
	r.api.mu.Unlock()
	if version == r.seen {
		return
	}
	r.seen, r.quiet = version, 0
	if r.Always != nil {
		if wrong := r.Always(r.t, r.api); wrong != "" && !r.wrong[wrong] {
			r.wrong[wrong] = true
			r.t.Errorf("%s: %s", r.where(), wrong)
		}
	}
	if r.World != nil {
		r.World(r.t, r.api)
	}
}

// where describes the fault and the write at which it happened.
func (r *run) where() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == "" {
		return "no fault at a write"
	}
	return r.fault.name + ": " + r.at
}

func (r *run) compare(want, got result) {
	bad := !slices.Equal(want.end, got.end)
	for _, what := range slices.Sorted(maps.Keys(union(want.counts, got.counts))) {
		if a, b := want.counts[what], got.counts[what]; a != b && !slices.Contains(r.Ignore, what) {
			r.t.Errorf("%s: %d times, but %d times without faults", what, b, a)
			bad = true
		}
	}
	if bad {
		r.t.Errorf("%s: the end differs (-without faults +this):\n%s\nwrites:\n\t%s", r.where(), cmp.Diff(want.end, got.end), strings.Join(got.writes, "\n\t"))
	}
}

func union(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
