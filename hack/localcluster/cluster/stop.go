package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// Stop ends every process, the ones that depend on others first, and removes
// the cluster's folder when it is a temporary one. It may be called more than
// once; later calls do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	managers := c.managers
	order := []*Process{c.kwok, c.scheduler, c.apiServer, c.etcd}
	c.mu.Unlock()

	// Not the caller's context: a stop must go on when the caller is in a hurry.
	// Each process has its own grace period.
	ctx := context.Background()
	errs := stopAll(ctx, managers)
	for _, p := range order {
		errs = append(errs, stopAll(ctx, []*Process{p})...)
	}
	c.launcher.close()
	errs = append(errs, c.cleanUp())
	return errors.Join(errs...)
}

// stopAll stops processes at the same time.
func stopAll(ctx context.Context, processes []*Process) []error {
	results := make(chan error, len(processes))
	for _, p := range processes {
		go func() {
			if p == nil {
				results <- nil
				return
			}
			results <- p.Stop(ctx)
		}()
	}
	errs := make([]error, 0, len(processes))
	for range processes {
		errs = append(errs, <-results)
	}
	return errs
}

func (c *Cluster) cleanUp() error {
	path := c.dir
	if !c.temporary {
		// A given folder keeps its logs and data; only the claim that processes
		// run goes away.
		path = StatePath(c.dir)
	}
	if err := os.RemoveAll(path); err != nil {
		return fmt.Errorf("remove files of the cluster: %w", err)
	}
	return nil
}
