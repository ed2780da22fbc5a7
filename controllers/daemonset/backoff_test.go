package daemonset

import (
	"fmt"
	"testing"
	"time"
)

func TestTheBackoffDoublesUpToAQuarterOfAnHour(t *testing.T) {
	var f failures
	at, now := failureKey{"uid", 1, "n"}, noon
	if d := f.blocked(at, now); d != 0 {
		t.Errorf("blocked for %v before the first failure", d)
	}
	want := time.Second
	for range 14 {
		f.deleted(at, now)
		if d := f.blocked(at, now); d != want {
			t.Errorf("blocked for %v, want %v", d, want)
		}
		if d := f.blocked(at, now.Add(want/4)); d != want-want/4 {
			t.Errorf("blocked for %v a quarter of %v later", d, want)
		}
		now = now.Add(want)
		if d := f.blocked(at, now); d != 0 {
			t.Errorf("still blocked for %v", d)
		}
		want = min(2*want, 15*time.Minute)
	}
	if want != 15*time.Minute {
		t.Errorf("the longest is %v", want)
	}
}

func TestTheBackoffIsPerNodeGenerationAndSet(t *testing.T) {
	var f failures
	f.deleted(failureKey{"uid", 1, "n"}, noon)
	for _, other := range []failureKey{{"uid", 1, "m"}, {"uid", 2, "n"}, {"other", 1, "n"}} {
		if d := f.blocked(other, noon); d != 0 {
			t.Errorf("%+v is blocked for %v", other, d)
		}
	}
}

func TestFailuresAreForgivenAndForgotten(t *testing.T) {
	var f failures
	now := noon
	for range 5 {
		f.deleted(failureKey{"uid", 1, "n"}, now)
	}
	for i := range 1000 {
		f.deleted(failureKey{"uid", 1, fmt.Sprint(i)}, now)
	}
	now = now.Add(forgetAfter + time.Second)
	f.deleted(failureKey{"uid", 1, "n"}, now)
	if d := f.blocked(failureKey{"uid", 1, "n"}, now); d != time.Second {
		t.Errorf("blocked for %v after half an hour without a failure", d)
	}
	if len(f.at) != 1 {
		t.Errorf("%d failures are remembered", len(f.at))
	}
}
