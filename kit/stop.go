package kit

import (
	"context"
	"time"
)

// stopGrace is how long the calls in flight when a controller is stopped may take to end. Cutting one off does not undo
// it: the server may carry it out all the same, at a time when another process leads.
const stopGrace = 5 * time.Second

type stopKey struct{}

// outlive returns a context for the calls of a controller that runs under ctx. It ends stopGrace after ctx, or with
// cancel; meanwhile stopping reports that ctx has ended.
func outlive(ctx context.Context) (calls context.Context, cancel context.CancelFunc) {
	calls, end := context.WithCancel(context.WithValue(context.WithoutCancel(ctx), stopKey{}, ctx.Done()))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-calls.Done():
		case <-time.After(stopGrace):
			end()
		}
	})
	return calls, func() {
		stop()
		end()
	}
}

// stopping reports whether nothing new should be begun under a context: it has ended, or its controller is stopping.
func stopping(ctx context.Context) bool {
	if done, ok := ctx.Value(stopKey{}).(<-chan struct{}); ok {
		select {
		case <-done:
			return true
		default:
		}
	}
	return ctx.Err() != nil
}
