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

// Play is a piece of work of one process, which EveryCut breaks off at each of its writes.
type Play struct {
	// Run are the controllers of the process, each as API.Run takes it.
	Run []any
	// Given prepares the API. The controllers come to rest on it undisturbed.
	Given func(t *testing.T, a *API)
	// Before changes something, of which the controllers come to rest undisturbed, too.
	Before func(t *testing.T, a *API)
	// Change sets off the work. Without it, the work is what Given leaves to do.
	Change func(t *testing.T, a *API)
	// World does what others would do in the present state, as kubelets do. It is called each time that something has
	// changed, and has to come to an end.
	World func(t *testing.T, a *API)
	// Always returns what is wrong at the moment, or nothing. It is asked each time that something has changed.
	Always func(t *testing.T, a *API) string
	// Rest is how long nothing may change before all counts as done; the default is a minute.
	Rest time.Duration
	// Kinds are those whose watches are late and whose lists fail; the default is all that are cached.
	Kinds []string
	// Ignore are parts of the end that may differ: "create v1/events", or a path such as "Pod status.reason".
	Ignore []string
}

// cut is one way to disturb a process at a write, or, where it has a kind, from the beginning of the work.
type cut struct {
	name string
	// reaction to the write; nil carries it out.
	reaction *Reaction
	// takes is how long the write is on its way.
	takes time.Duration
	// ends is how the process ends with it.
	ends ending
	// away is how long others go on before the next process starts.
	away time.Duration
	// only picks the writes that can meet with it; nil is all.
	only func(*Request) bool
	// overtaken is that somebody else writes to the object first.
	overtaken bool
}

type ending int

const (
	livesOn ending = iota
	isStopped
	isKilled
)

var errGone = errors.New("the process is gone")

// cuts are what may happen at a write. A stop leaves five seconds for the calls that are under way.
func cuts() []cut {
	changes := func(r *Request) bool { return r.Verb == "update" || r.Verb == "patch" }
	slowly := Refuse(http.StatusTooManyRequests, "slowly")
	return []cut{
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

// shortly is how many times fewer cuts are played in short mode, as under the race detector.
const shortly = 5

// EveryCut plays the work once undisturbed, and then again for each of its writes and each way to disturb the process
// there: killed, stopped, answers lost or refused. A process that ended is followed by one that knows nothing. Further
// plays have the watches of one kind, or of all others, late, and the lists of one kind fail for a while. All have to end
// with the same objects, and to create and delete as many of each kind as the undisturbed one, no more and no fewer.
func EveryCut(t *testing.T, p Play) {
	t.Helper()
	var want played
	p.once(t, "undisturbed", &want, func(*player) {})
	if t.Failed() {
		return
	}
	if len(want.writes) == 0 {
		t.Fatal("the play has no writes to be cut at")
	}
	for i, c := range cuts() {
		for n := range want.writes {
			if testing.Short() && (i+n)%shortly != 0 {
				continue
			}
			p.once(t, fmt.Sprintf("%s, at write %d", c.name, n+1), &want, func(r *player) { r.cut, r.left = c, n+1 })
		}
	}
	for _, kind := range want.kinds {
		p.once(t, "late watches of "+kind.Kind, &want, func(r *player) { r.late = []schema.GroupVersionKind{kind} })
		p.once(t, "no lists of "+kind.Kind, &want, func(r *player) { r.unlisted = kind })
		others := slices.DeleteFunc(slices.Clone(want.kinds), func(k schema.GroupVersionKind) bool { return k == kind })
		if len(others) > 1 {
			p.once(t, "late watches but of "+kind.Kind, &want, func(r *player) { r.late = others })
		}
	}
}

// played is what is compared.
type played struct {
	end    []string // the objects
	counts map[string]int
	writes []string
	kinds  []schema.GroupVersionKind // that are cached
}

// player plays once.
type player struct {
	Play
	t        *testing.T
	api      *API
	late     []schema.GroupVersionKind
	unlisted schema.GroupVersionKind
	unlist   schema.GroupVersionResource
	quiet    time.Duration // for which nothing has changed
	steps    int
	seen     uint64 // the version at the last look
	wrong    map[string]bool

	mu      sync.Mutex // guards the fields below
	running []*Running
	cut     cut
	left    int    // writes until the cut; 0: no cut
	at      string // the write that was cut
	ended   bool   // the process is to be followed by another
	dead    bool   // its calls reach nobody
	failed  bool   // lists of the unlisted kind do
}

// once plays once and compares the end with what is wanted, which the first play sets.
func (p Play) once(t *testing.T, name string, want *played, prepare func(*player)) {
	t.Helper()
	t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := &player{Play: p, t: t, api: New(t), wrong: map[string]bool{}}
			if r.Rest == 0 {
				r.Rest = time.Minute
			}
			p.Given(t, r.api)
			got := r.play(prepare)
			if want.writes == nil {
				*want = got
				return
			}
			r.compare(*want, got)
		})
	})
}

func (r *player) play(prepare func(*player)) played {
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
		r.unlist, r.failed = r.api.registry.byKind[r.unlisted].gvr(), true
		r.mu.Unlock()
	}
	if r.Change != nil {
		r.Change(r.t, r.api)
	}
	if len(r.running) == 0 {
		r.start()
	}
	for _, kind := range r.late {
		r.api.DelayWatch(kind, 3*time.Second)
	}
	if r.unlisted.Kind != "" {
		for range 20 {
			r.step(time.Second)
		}
		r.mu.Lock()
		r.failed = false
		r.mu.Unlock()
	}
	r.settle()
	out := played{end: r.api.state(r.Ignore), writes: r.api.Writes(), counts: map[string]int{}}
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

func (r *player) start() {
	for _, c := range r.Run {
		running := r.api.Run(r.t, c)
		r.mu.Lock()
		r.running = append(r.running, running)
		r.mu.Unlock()
	}
}

// stop ends the process, and what it knew.
func (r *player) stop() {
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
func (r *player) react(q *Request) *Reaction {
	r.mu.Lock()
	if r.failed && q.Resource == r.unlist && (q.Verb == "list" || q.Verb == "watch") {
		r.mu.Unlock()
		return Refuse(http.StatusInternalServerError, "etcd is away")
	}
	if r.dead {
		r.mu.Unlock()
		return &Reaction{Err: errGone}
	}
	if q.reads() || r.left == 0 || r.cut.only != nil && !r.cut.only(q) {
		r.mu.Unlock()
		return nil
	}
	r.left--
	if r.left > 0 {
		r.mu.Unlock()
		return nil
	}
	c := r.cut
	r.at, r.ended, r.dead = q.String(), c.ends != livesOn, c.ends == isKilled
	if c.ends == isStopped {
		for _, p := range r.running {
			p.cancel()
		}
	}
	r.mu.Unlock()
	if c.overtaken {
		r.api.touch(q)
	}
	time.Sleep(c.takes)
	return c.reaction
}

// touch writes an object as it is.
func (a *API) touch(q *Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if o := a.store.table(q.Resource.GroupResource()).objects[q.Key()]; o != nil {
		a.store.put(q.Resource.GroupResource(), o.DeepCopy())
	}
}

// settle lets the controllers and the world work until nothing changes any more.
func (r *player) settle() {
	r.t.Helper()
	for r.quiet = 0; r.quiet < r.Rest; {
		r.step(max(200*time.Millisecond, r.quiet))
	}
}

// step lets some time pass.
func (r *player) step(d time.Duration) {
	r.t.Helper()
	const limit = 300
	if r.steps++; r.steps > limit {
		r.t.Fatalf("no rest after %d steps; the last writes: %q", limit, lastOf(r.api.Writes(), 20))
	}
	r.api.Pass(d)
	r.quiet += d
	r.mu.Lock()
	ended, away := r.ended, r.cut.away
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
	r.look()
}

// look lets the world act on what has changed.
func (r *player) look() {
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

// where says what was cut.
func (r *player) where() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == "" {
		return "cut nowhere"
	}
	return r.cut.name + ": " + r.at
}

func (r *player) compare(want, got played) {
	bad := !slices.Equal(want.end, got.end)
	for _, what := range slices.Sorted(maps.Keys(union(want.counts, got.counts))) {
		if a, b := want.counts[what], got.counts[what]; a != b && !slices.Contains(r.Ignore, what) {
			r.t.Errorf("%s: %d times, and undisturbed %d times", what, b, a)
			bad = true
		}
	}
	if bad {
		r.t.Errorf("%s: the end differs (-undisturbed +this):\n%s\nwrites:\n\t%s", r.where(), cmp.Diff(want.end, got.end), strings.Join(got.writes, "\n\t"))
	}
}

func union(a, b map[string]int) map[string]int {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}
