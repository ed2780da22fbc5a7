package kit_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"orrery/kit"
	"orrery/kit/kittest"
)

func TestBatchCallsAllWithinItsLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards called
		var gauge kittest.Gauge
		called := map[int]int{}
		boom := errors.New("boom")
		start := time.Now()
		err := kit.Batch(t.Context(), 10, 3, func(_ context.Context, i int) error {
			mu.Lock()
			called[i]++
			mu.Unlock()
			gauge.Hold(time.Second)
			switch i {
			case 4:
				panic("boom")
			case 5:
				return boom
			}
			return nil
		})
		var p *kit.PanicError
		if !errors.Is(err, boom) || !errors.As(err, &p) {
			t.Errorf("error %v, want both failures", err)
		}
		if gauge.Most() != 3 || len(called) != 10 {
			t.Errorf("%d calls, %d at once; want 10, 3 at once", len(called), gauge.Most())
		}
		if took := time.Since(start); took != 4*time.Second {
			t.Errorf("took %s, want 4s", took)
		}
	})
}

func TestOfManyFailuresAFewAreSpeltOut(t *testing.T) {
	last := errors.New("the last")
	for _, tc := range []struct{ n, lines int }{{1, 1}, {10, 10}, {11, 11}, {5000, 11}} {
		err := kit.Batch(t.Context(), tc.n, 1, func(_ context.Context, i int) error {
			if i == tc.n-1 {
				return last
			}
			return errors.New("a failure")
		})
		if lines := strings.Count(err.Error(), "\n") + 1; lines != tc.lines || !errors.Is(err, last) {
			t.Errorf("%d failures: %d lines, want %d; holds the last: %t", tc.n, lines, tc.lines, errors.Is(err, last))
		}
		if want := fmt.Sprintf("and %d more", tc.n-10); tc.n > 10 && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%d failures: %q does not end with %q", tc.n, err, want)
		}
	}
	if err := kit.Batch(t.Context(), 3, 3, func(context.Context, int) error { return nil }); err != nil {
		t.Errorf("no failure: %v", err)
	}
}

func TestBatchBeginsNothingAfterTheEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	err := kit.Batch(ctx, 10, 1, func(context.Context, int) error {
		if calls++; calls == 3 {
			cancel()
		}
		return nil
	})
	if calls != 3 || !errors.Is(err, context.Canceled) {
		t.Errorf("%d calls, error %v", calls, err)
	}
	if err := kit.Batch(t.Context(), 0, 5, nil); err != nil {
		t.Errorf("an empty batch failed: %v", err)
	}
}

func TestSlowStartDoublesUntilTheFirstFailure(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int
		fails  int // the call that fails, -1 for none
		done   int
		called int
	}{
		{"none", 0, -1, 0, 0},
		{"all succeed", 10, -1, 10, 10},
		{"the first fails", 100, 0, 0, 1},
		{"one of the third batch fails", 100, 4, 6, 7},
		{"the last batch is what is left", 6, 5, 5, 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			var mu sync.Mutex
			var called []int
			done, err := kit.SlowStart(t.Context(), c.n, func(_ context.Context, i int) error {
				mu.Lock()
				defer mu.Unlock()
				called = append(called, i)
				if i == c.fails {
					return errors.New("quota")
				}
				return nil
			})
			if done != c.done || len(called) != c.called || (err != nil) != (c.fails >= 0) {
				t.Errorf("%d done, %d called, error %v; want %d done, %d called", done, len(called), err, c.done, c.called)
			}
			slices.Sort(called)
			for i, got := range called {
				if i != got {
					t.Errorf("call %d missing: %v", i, called)
				}
			}
		})
	}
}

func TestSlowStartTurnsAPanicIntoAFailure(t *testing.T) {
	done, err := kit.SlowStart(t.Context(), 4, func(_ context.Context, i int) error {
		if i == 1 {
			panic("boom")
		}
		return nil
	})
	var p *kit.PanicError
	if done != 2 || !errors.As(err, &p) {
		t.Errorf("%d done, error %v", done, err)
	}
}

func TestSlowStartStopsWithTheController(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	done, err := kit.SlowStart(ctx, 4, func(context.Context, int) error { return nil })
	if done != 0 || err == nil {
		t.Errorf("%d done, error %v", done, err)
	}
}

func TestSlowStartKeepsToWhatTheServerTakesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gauge kittest.Gauge
		start := time.Now()
		done, err := kit.SlowStart(t.Context(), 200, func(context.Context, int) error {
			gauge.Hold(time.Second)
			return nil
		})
		if done != 200 || err != nil || gauge.Most() != 64 {
			t.Errorf("%d done, error %v, %d at once; want 200 done, 64 at once", done, err, gauge.Most())
		}
		// 1, 2, 4, 8, 16, 32, 64, and 73 in two turns.
		if took := time.Since(start); took != 9*time.Second {
			t.Errorf("took %s, want 9s", took)
		}
	})
}

// TestBatchFirst: the error is that of the first call in their order, and nothing hides a panic or a call left out.
func TestBatchFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first := errors.New("the first")
		err := kit.BatchFirst(t.Context(), 9, 9, func(_ context.Context, i int) error {
			time.Sleep(time.Duration(9-i) * time.Second) // the last comes first
			switch {
			case i == 2:
				return first
			case i > 2:
				return errors.New("a later one")
			}
			return nil
		})
		if err != first {
			t.Errorf("error %v, want %v", err, first)
		}
		if err := kit.BatchFirst(t.Context(), 2, 2, func(context.Context, int) error { panic("odd") }); err == nil {
			t.Error("a panic is no error")
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := kit.BatchFirst(ended, 2, 2, func(context.Context, int) error { return nil }); !kit.IsNotCalled(err) {
			t.Errorf("error %v, want that of calls left out", err)
		}
	})
}
