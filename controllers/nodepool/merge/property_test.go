package merge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"orrery/controllers/nodepool/record"
)

// world is one node, its pools and what the node would be if there had never been a pool.
type world struct {
	rand    *rand.Rand
	state   record.State
	text    string // of the record
	foreign record.State
	edited  map[record.Key]bool // keys that pools owned when somebody else changed them, since the last merge
	pools   []*Pool
	now     time.Time
	history []string
}

var universe = []record.Key{
	{Kind: record.Label, Name: "a"}, {Kind: record.Label, Name: "example.com/b"}, {Kind: record.Annotation, Name: "x"},
	{Kind: record.Annotation, Name: "long"}, {Kind: record.Taint, Name: "t", Effect: corev1.TaintEffectNoSchedule},
	{Kind: record.Taint, Name: "t", Effect: corev1.TaintEffectNoExecute}, {Kind: record.Taint, Name: "u", Effect: corev1.TaintEffectNoSchedule},
}

func (w *world) value(k record.Key) string {
	v := []string{"", "1", "2", "3"}[w.rand.IntN(4)]
	if k.Name == "long" {
		v = strings.Repeat("long value ", 10) + v
	}
	return v
}

func (w *world) say(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *world) record(t *testing.T) record.Record {
	t.Helper()
	rec, err := record.Parse(w.text)
	if err != nil {
		t.Fatalf("the record cannot be read back: %v\n%s", err, w.text)
	}
	return rec
}

// edit is somebody else's change of a key.
func (w *world) edit(t *testing.T) {
	k := universe[w.rand.IntN(len(universe))]
	rec := w.record(t)
	owned := rec.Owner(k) != nil
	now, has := w.state.Get(k)
	change := func(s *record.State) { s.Delete(k) }
	if w.rand.IntN(3) > 0 {
		v := record.Value{Text: w.value(k)}
		if k.Kind == record.Taint && w.rand.IntN(2) == 0 {
			at := metav1.NewTime(w.now)
			v.Added = &at
		}
		if has && now.Text == v.Text {
			return // nothing changes
		}
		change = func(s *record.State) { s.Set(k, v) }
		w.say("edit %s=%q", k, v.Text)
	} else {
		w.say("delete %s", k)
	}
	change(&w.state)
	if !owned {
		change(&w.foreign)
		return
	}
	w.edited[k] = true
}

func (w *world) newPool(i int) *Pool {
	p := &Pool{
		Name: fmt.Sprintf("pool-%d", i), UID: types.UID(fmt.Sprintf("uid-%d-%d", i, w.rand.IntN(1000))), Priority: int32(w.rand.IntN(3)),
		Created: w.now, Values: map[record.Key]string{}, Selector: labels.SelectorFromSet(labels.Set{fmt.Sprintf("member-%d", i): ""}),
	}
	w.shape(p)
	return p
}

// shape gives a pool another content.
func (w *world) shape(p *Pool) {
	p.Values, p.Skip, p.Priority = map[record.Key]string{}, w.rand.IntN(3) == 0, int32(w.rand.IntN(3))
	p.Paused, p.Audit = w.rand.IntN(8) == 0, w.rand.IntN(8) == 0
	for _, k := range universe {
		if w.rand.IntN(2) == 0 {
			p.Values[k] = w.value(k)
		}
	}
	p.Hash = p.hash()
	w.say("%s: %v skip %t priority %d frozen %t", p.Name, p.Values, p.Skip, p.Priority, p.frozen())
}

// merge brings the node to where it has to be, as the controller stores it.
func (w *world) merge(t *testing.T) Outcome {
	t.Helper()
	slices.SortFunc(w.pools, ByPrecedence)
	waiting := types.UID("")
	if len(w.pools) > 0 && w.rand.IntN(5) == 0 {
		waiting = w.pools[w.rand.IntN(len(w.pools))].UID
	}
	in := Input{
		Node: "node", Pools: w.pools, Now: w.now, Gone: func(types.UID) bool { return true },
		Waiting: func(uid types.UID) bool { return uid == waiting },
	}
	before := w.record(t)
	out := Next(w.state, before, in)
	w.say("merge: %v", out.Changes)
	again := Next(out.State, out.Record, in)
	if !again.Same() {
		t.Fatalf("a second merge changes %v, record %s to %s\n%s", again.Changes, out.Record.Text(), again.Record.Text(), strings.Join(w.history, "\n"))
	}
	// What somebody else changed and no pool has set again is theirs now.
	for k := range w.edited {
		now, has := out.State.Get(k)
		owner := out.Record.Owner(k)
		switch {
		case owner == nil && has:
			w.foreign.Set(k, now)
		case owner == nil:
			w.foreign.Delete(k)
		case !has || !owner.Keys[k].Holds(now.Text):
			continue // a pool that does nothing now still remembers it
		case w.regained(before, *owner, k):
		}
		delete(w.edited, k)
	}
	w.state, w.text = out.State, out.Record.Text()
	return out
}

// regained reports whether a key that somebody else changed was given up as theirs and taken again in one merge: what is
// remembered of it is then their change.
func (w *world) regained(before record.Record, owner record.Pool, k record.Key) bool {
	was, is := before.Owner(k).Keys[k].Was, owner.Keys[k].Was
	theirs, there := w.state.Get(k)
	if was == nil && is == nil || was != nil && is != nil && was.Text == is.Text {
		return false
	}
	if there {
		w.foreign.Set(k, theirs)
	} else {
		w.foreign.Delete(k)
	}
	return true
}

func same(a, b record.State) bool {
	sort := func(taints []corev1.Taint) []corev1.Taint {
		return slices.SortedFunc(slices.Values(taints), func(x, y corev1.Taint) int { return record.Compare(record.TaintKey(x), record.TaintKey(y)) })
	}
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		slices.EqualFunc(sort(a.Taints), sort(b.Taints), func(x, y corev1.Taint) bool {
			return x.MatchTaint(&y) && x.Value == y.Value && x.TimeAdded.Equal(y.TimeAdded)
		})
}

// Whatever pools do to a node, and whatever others change meanwhile: once the pools are gone, the node is what it would
// be if there had never been one, and nothing remembers them.
func TestApplyThenRevertGivesTheNodeBackBitForBit(t *testing.T) {
	for seed := range uint64(2000) {
		w := &world{
			rand: rand.New(rand.NewPCG(seed, 7)), edited: map[record.Key]bool{}, now: time.Unix(1_800_000_000, 0),
			state: record.State{Labels: map[string]string{"member-0": "", "kept": "yes"}, Annotations: map[string]string{"kept": "yes"}},
		}
		w.foreign = w.state
		for range w.rand.IntN(4) {
			w.edit(t)
		}
		for i := range 3 {
			w.pools = append(w.pools, w.newPool(i))
		}
		for range 3 + w.rand.IntN(25) {
			w.now = w.now.Add(time.Second)
			w.step(t)
		}
		retired := w.pools
		w.pools = nil
		for _, p := range retired {
			if next := *p; w.rand.IntN(2) == 0 { // the others are gone without a trace
				next.Deleting = true
				w.pools = append(w.pools, &next)
			}
		}
		w.merge(t)
		if !same(w.state, w.foreign) || w.text != "" {
			t.Fatalf("seed %d: the node is\n%+v\nwant\n%+v\nrecord %q after\n%s", seed, w.state, w.foreign, w.text, strings.Join(w.history, "\n"))
		}
	}
}

// step is one thing that happens.
func (w *world) step(t *testing.T) {
	switch w.rand.IntN(8) {
	case 0, 1:
		w.edit(t)
	case 2:
		i := w.rand.IntN(len(w.pools))
		next := *w.pools[i]
		w.shape(&next)
		w.pools[i] = &next
	case 3: // joins or leaves
		k := record.Key{Kind: record.Label, Name: fmt.Sprintf("member-%d", w.rand.IntN(3))}
		for _, s := range []*record.State{&w.state, &w.foreign} {
			if _, has := s.Get(k); has {
				s.Delete(k)
			} else {
				s.Set(k, record.Value{})
			}
		}
		w.say("toggle %s", k)
	case 4: // one is made anew under its name
		i := w.rand.IntN(len(w.pools))
		w.pools[i] = w.newPool(i)
	default:
		w.merge(t)
	}
}

// Taints keep their place: what was there first stays first, before, during and after.
func TestTaintsKeepTheirOrder(t *testing.T) {
	at := metav1.NewTime(time.Unix(1_700_000_000, 0))
	before := []corev1.Taint{
		{Key: "first", Effect: corev1.TaintEffectNoSchedule}, {Key: "t", Value: "old", Effect: corev1.TaintEffectNoSchedule, TimeAdded: &at},
		{Key: "last", Effect: corev1.TaintEffectNoExecute, TimeAdded: &at},
	}
	p := &Pool{Name: "p", UID: "p", Selector: labels.Everything(), Values: map[record.Key]string{universe[4]: "new", universe[6]: ""}}
	in := Input{Node: "n", Pools: []*Pool{p}}
	during := Next(record.State{Taints: before}, record.Record{}, in)
	var order []string
	for _, taint := range during.State.Taints {
		order = append(order, taint.Key+taint.Value)
	}
	if got := strings.Join(order, " "); got != "first tnew last u" {
		t.Errorf("during: %s", got)
	}
	in.Pools, in.Gone = nil, func(types.UID) bool { return true }
	after := Next(during.State, during.Record, in)
	if fmt.Sprint(after.State.Taints) != fmt.Sprint(before) || before[1].Value != "old" {
		t.Errorf("after: %v", after.State.Taints)
	}
}
