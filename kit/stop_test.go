package kit

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestCallsUnderWayMayEndAfterTheStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, stop := context.WithCancel(t.Context())
		calls, cancel := outlive(run)
		defer cancel()
		if stopping(calls) {
			t.Error("stopping before the stop")
		}
		stop()
		time.Sleep(stopGrace - time.Second)
		if !stopping(calls) || calls.Err() != nil {
			t.Errorf("within the grace: stopping %t, context %v; want true and no end", stopping(calls), calls.Err())
		}
		time.Sleep(2 * time.Second)
		if calls.Err() == nil {
			t.Error("after the grace the calls have to be broken off")
		}
	})
}

func TestABatchBeginsNothingNewOnceItsControllerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, stop := context.WithCancel(t.Context())
		calls, cancel := outlive(run)
		defer cancel()
		ended := 0
		err := Batch(calls, 10, 1, func(ctx context.Context, i int) error {
			if i == 2 {
				stop()
				time.Sleep(time.Second)
			}
			ended++
			return ctx.Err()
		})
		if ended != 3 || !errors.Is(err, errNotCalled) {
			t.Errorf("%d calls ended, error %v; want 3, the one under way among them, and the rest left out", ended, err)
		}
		if out := classify(calls, Done, err); out != OutcomeCancelled {
			t.Errorf("outcome %s, want cancelled", out)
		}
	})
}
