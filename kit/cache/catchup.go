package cache

import (
	"context"
	"sync"
	"time"
)

// catchUpLimit bounds how long a store is compared with the server. One that lags longer has lost its watch.
const catchUpLimit = 5 * time.Minute

// catchUps are the callers that wait for a store to hold what the server has.
type catchUps struct {
	mu      sync.Mutex // guards the fields below
	waiting []func()   // for the next comparison: one that runs already may have begun before their write
	running bool
}

// WhenCaughtUp calls f once the store of an informer has been found to hold all that the server had at some time after
// this call, or after minutes in which it did not catch up. It is for callers that do not know what became of a write. It
// costs a request, which callers that come at the same time share.
func (c *Cache) WhenCaughtUp(i *Informer, f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil || c.ctx.Err() != nil {
		return // nothing is cached yet, or the process is stopping
	}
	i.catchUps.mu.Lock()
	defer i.catchUps.mu.Unlock()
	i.catchUps.waiting = append(i.catchUps.waiting, f)
	if i.catchUps.running {
		return
	}
	i.catchUps.running = true
	ctx := c.ctx
	c.running.Go(func() {
		for {
			i.catchUps.mu.Lock()
			now := i.catchUps.waiting
			i.catchUps.waiting = nil
			if i.catchUps.running = len(now) > 0; !i.catchUps.running {
				i.catchUps.mu.Unlock()
				return
			}
			i.catchUps.mu.Unlock()
			c.catchUp(ctx, i)
			for _, f := range now {
				f()
			}
		}
	})
}

// catchUp returns when every part of an informer has caught up, or catchUpLimit has passed.
func (c *Cache) catchUp(ctx context.Context, i *Informer) {
	ctx, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	for _, p := range i.parts {
		for ctx.Err() == nil {
			names, err := c.names(p.kind, p.namespace)
			if err == nil {
				var lag int
				if lag, err = p.compare(ctx, names, fewObjects, false); err == nil && lag == 0 {
					break
				}
			}
			if err != nil {
				c.o.Log.V(2).Info("Cannot find out whether a cache is up to date", "kind", p.String(), "reason", err)
			}
			pause(ctx, confirmRetry)
		}
	}
}
