package kit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unsafe"

	"k8s.io/klog/v2"

	"orrery/kit/cache"
)

// lonely builds a loop that nothing runs: tests step it by hand.
func lonely(t *testing.T, r Func[Key]) *controller[Key] {
	t.Helper()
	cc := ControllerContext{Name: "lonely", Cache: cache.New(cache.Options{}), Log: klog.Background()}.In(NewScope())
	if err := NewController[Key](cc, r).Complete(); err != nil {
		t.Fatal(err)
	}
	c := cc.scope.Controllers()[0].(*controller[Key])
	t.Cleanup(c.queue.ShutDown)
	return c
}

func exactly(key string) func(string) bool { return func(k string) bool { return k == key } }

func TestFailuresAreRememberedLongerThanWhatWentWell(t *testing.T) {
	bad := Key{Namespace: "default", Name: "bad"}
	c := lonely(t, func(_ context.Context, k Key) (Result, error) {
		if k == bad {
			return Done, errors.New("boom " + strings.Repeat("x", 2*errorLimit))
		}
		return After(time.Minute), nil
	})
	c.step(t.Context(), bad)
	for i := range 3 * recentLen {
		c.step(t.Context(), Key{Namespace: "default", Name: fmt.Sprintf("web-%d", i%50)})
	}
	got := c.History(exactly("default/bad"))
	if len(got) != 1 || got[0].Outcome != OutcomeFailed || !strings.HasPrefix(got[0].Error, "boom x") || len(got[0].Error) > errorLimit+8 {
		t.Errorf("of the failure %d reconciles before, this is left: %.200v", 3*recentLen, got)
	}
	if !got[0].Next.Equal(got[0].At.Add(backoffBase)) {
		t.Errorf("failed at %s, next look at %s, want it %s later", got[0].At, got[0].Next, backoffBase)
	}
	web := c.History(exactly("default/web-7"))
	if len(web) < recentLen/50 || len(web) > recentLen/50+1 || web[0].At.Before(web[1].At) {
		t.Errorf("%d entries of one of 50 keys, want its share of the last %d, newest first", len(web), recentLen)
	}
	if d := web[0].Next.Sub(web[0].At); d != time.Minute {
		t.Errorf("next look %s later, want what the reconcile asked for", d)
	}
	if all := c.History(func(string) bool { return true }); len(all) != recentLen+1 {
		t.Errorf("%d entries, want the last %d and the failure", len(all), recentLen)
	}
	if none := c.History(exactly("default/we")); len(none) != 0 {
		t.Errorf("part of a name found %v", none)
	}
}

func TestAFailureOfTheRecentPastIsNotShownTwice(t *testing.T) {
	c := lonely(t, func(context.Context, Key) (Result, error) { return Done, errors.New("boom") })
	for range 5 {
		c.step(t.Context(), Key{Name: "a"})
	}
	if got := c.History(exactly("a")); len(got) != 5 {
		t.Errorf("%d entries of 5 reconciles", len(got))
	}
	if d := c.History(exactly("a"))[0]; d.Next.Sub(d.At) != backoffBase<<4 {
		t.Errorf("the fifth retry comes after %s, want %s", d.Next.Sub(d.At), backoffBase<<4)
	}
}

// TestTheMemoryOfALoopIsBounded is what the documentation says of it.
func TestTheMemoryOfALoopIsBounded(t *testing.T) {
	var k keep[Key]
	k.limit = recentLen
	for range 10 * recentLen {
		k.add(past[Key]{})
	}
	if n := cap(k.buf) * int(unsafe.Sizeof(past[Key]{})); n > 100<<10 {
		t.Errorf("%d bytes of entries, documented as at most 100 KiB", n)
	}
	var few keep[Key]
	few.limit = recentLen
	few.add(past[Key]{})
	if cap(few.buf) > firstLength {
		t.Errorf("room for %d entries after the first", cap(few.buf))
	}
}

func TestASampleCountsAndBeginsANewSpan(t *testing.T) {
	var took time.Duration
	var fail error
	c := lonely(t, func(context.Context, Key) (Result, error) {
		time.Sleep(took)
		return Done, fail
	})
	took = 3 * time.Millisecond
	c.step(t.Context(), Key{Name: "slow"})
	took, fail = 0, errors.New("boom")
	c.step(t.Context(), Key{Name: "bad"})
	s := c.Sample()
	if s.Reconciles != 2 || s.Failures != 1 || s.Retries != 1 || s.Slowest < 3*time.Millisecond || s.Took < s.Slowest {
		t.Errorf("sample %+v", s)
	}
	c.step(t.Context(), Key{Name: "bad"})
	if next := c.Sample(); next.Reconciles != 3 || next.Slowest >= s.Slowest || next.Took < s.Took {
		t.Errorf("then %+v", next)
	}
}

func TestTheOldestKeyIsTheOneThatWaitedLongest(t *testing.T) {
	l := newLanes[string]()
	start := time.Now()
	if l.oldest(start.Add(time.Hour)) != 0 {
		t.Error("an empty queue has an oldest key")
	}
	age := func() time.Duration { return l.oldest(time.Now()).Round(10 * time.Millisecond) }
	l.Push("first")
	time.Sleep(30 * time.Millisecond)
	l.Push("second")
	if a := age(); a < 30*time.Millisecond {
		t.Errorf("the first has waited %s", a)
	}
	l.mark("first")
	l.Touch("first") // overtakes, which leaves a void entry
	if l.Pop() != "first" || age() > 20*time.Millisecond {
		t.Errorf("the second has waited %s", age())
	}
	if l.Pop() != "second" || l.oldest(time.Now()) != 0 {
		t.Error("a queue that has been emptied has an oldest key")
	}
}

func TestPanicsNameTheObject(t *testing.T) {
	c := lonely(t, func(context.Context, Key) (Result, error) { panic("nil map") })
	for range 2 * panicsLen {
		c.step(t.Context(), Key{Namespace: "default", Name: "web"})
	}
	s := c.State(time.Now())
	if len(s.Panics) != panicsLen || s.Totals[OutcomePanicked] != 2*panicsLen {
		t.Fatalf("%d panics kept of %d", len(s.Panics), s.Totals[OutcomePanicked])
	}
	p := s.Panics[0]
	if p.Object != "default/web" || p.Where != "reconcile" || p.Value != "panic: nil map" || !strings.Contains(p.Stack, "TestPanicsNameTheObject") {
		t.Errorf("panic %+v", p)
	}
}
