package cronjob

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"orrery/kit"
)

const (
	// clockPeriod is how often the clock is checked.
	clockPeriod = 10 * time.Second
	// clockSlack is the drift up to which the schedules are not evaluated again.
	clockSlack = 2 * time.Second
)

// clock detects that the wall clock was set or that the machine was suspended. Timers run on the monotonic clock and not
// on the wall clock: after such a step they would fire too late or too early.
type clock struct {
	stepped func()

	mu   sync.Mutex // guards the fields below
	wall time.Time  // the last known time, without the monotonic reading
	mono time.Time  // the same time, with it
}

func newClock(stepped func()) *clock {
	now := time.Now()
	return &clock{stepped: stepped, wall: now.Round(0), mono: now}
}

// check calls stepped if the wall clock has moved more or less than the monotonic one.
func (c *clock) check(ctx context.Context, _ string) (kit.Result, error) {
	if step := c.step(time.Now()); step != 0 {
		klog.FromContext(ctx).Info("The clock was stepped; evaluating all schedules again", "step", step)
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
