package kit

import (
	"math/rand/v2"
	"slices"
	"testing"
)

func drain(l *lanes[int]) []int {
	var out []int
	for l.Len() > 0 {
		out = append(out, l.Pop())
	}
	return out
}

func TestUrgentKeysComeFirst(t *testing.T) {
	l := newLanes[int]()
	for k := range 4 {
		l.Push(k)
	}
	l.mark(9)
	l.Push(9)
	l.mark(2)
	l.Touch(2) // waits already, and overtakes
	l.mark(2)
	l.Touch(2) // is urgent already
	if n := l.Len(); n != 5 {
		t.Errorf("length %d, want 5", n)
	}
	if got := drain(l); !slices.Equal(got, []int{9, 2, 0, 1, 3}) {
		t.Errorf("order %v", got)
	}
	l.Push(2)
	l.Push(1)
	if got := drain(l); !slices.Equal(got, []int{2, 1}) {
		t.Errorf("order %v: an old mark outlived its push", got)
	}
}

// Urgent keys that come faster than they are reconciled must not keep the others waiting for ever, as in
// controller-runtime#3496.
func TestUrgentKeysDoNotStarveTheOthers(t *testing.T) {
	l := newLanes[int]()
	for _, slow := range []int{-1, -2} {
		l.Push(slow)
	}
	var at []int // when the others had their turn
	for k := range 100 {
		l.mark(k)
		l.Push(k)
		if got := l.Pop(); got < 0 {
			at = append(at, k)
		}
	}
	if !slices.Equal(at, []int{urgentRun, 2*urgentRun + 1}) {
		t.Errorf("the others had turns %v", at)
	}
	l.Push(-3)
	if got := l.Pop(); got < 0 {
		t.Errorf("%d came before an urgent key although it had not waited", got)
	}
}

// TestLanesHoldWhatWasPushed plays the part of the work queue, which pushes a key only when it does not wait and
// touches it when it does.
func TestLanesHoldWhatWasPushed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	l, waits := newLanes[int](), map[int]bool{}
	for range 100_000 {
		switch key := rnd.IntN(20); {
		case rnd.IntN(3) == 0 && len(waits) > 0:
			got := l.Pop()
			if !waits[got] {
				t.Fatalf("popped %d, which does not wait", got)
			}
			delete(waits, got)
		default:
			if rnd.IntN(3) == 0 {
				l.mark(key)
			}
			if waits[key] {
				l.Touch(key)
			} else {
				l.Push(key)
				waits[key] = true
			}
		}
		if l.Len() != len(waits) {
			t.Fatalf("length %d, want %d", l.Len(), len(waits))
		}
	}
	drain(l)
	if len(l.overtaken)+len(l.urgent)+len(l.marked)+l.voids != 0 {
		t.Errorf("an empty queue remembers %v %v %v %d", l.overtaken, l.urgent, l.marked, l.voids)
	}
}

func TestRingKeepsOrderAsItGrowsAndWraps(t *testing.T) {
	var r ring[int]
	next, want := 0, 0
	for round := range 50 {
		for range 1 + round*3%17 {
			r.push(queued[int]{key: next})
			next++
		}
		for range 1 + round*5%13 {
			if r.n == 0 {
				break
			}
			if got := r.pop().key; got != want {
				t.Fatalf("popped %d, want %d", got, want)
			}
			want++
		}
	}
}
