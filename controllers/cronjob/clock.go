package cronjob

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit"
)

const (
	// clockPeriod is how often the clock is looked at.
	clockPeriod = 10 * time.Second
	// clockSlack is by how much the clock may have drifted without a new look at every schedule.
	clockSlack = 2 * time.Second
)

// clock notices that the wall clock was set or that the machine slept. Timers run on the time that passed and not on
// what the wall clock shows: after a step they would fire too late or too early.
type clock struct {
	stepped func()

	mu   sync.Mutex // guards the fields below
	wall time.Time  // what the wall clock showed, without the monotonic reading
	mono time.Time  // the same moment, with it
}

func newClock(stepped func()) *clock {
	now := time.Now()
	return &clock{stepped: stepped, wall: now.Round(0), mono: now}
}

// check calls stepped if the wall clock has moved by more or less than the time that passed.
func (c *clock) check(ctx context.Context, _ string) (kit.Result, error) {
	if step := c.step(time.Now()); step != 0 {
		klog.FromContext(ctx).Info("The clock was stepped; looking at every schedule anew", "step", step)
		c.stepped()
	}
	return kit.Done, nil
}

// step returns how far the wall clock was set since the last step, or 0 if that is within the slack.
func (c *clock) step(now time.Time) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	step := now.Round(0).Sub(c.wall) - now.Sub(c.mono)
	if step.Abs() < clockSlack {
		return 0
	}
	c.wall, c.mono = now.Round(0), now
	return step
}
